// Ends the virtual machine with an exit code, through QEMU's isa-debug-exit: qexit CODE makes QEMU exit with 2 CODE + 1.
#include <stdio.h>
#include <stdlib.h>
#include <sys/io.h>

enum { PORT = 0xf4 };

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: qexit CODE\n");
        return 2;
    }
    if (ioperm(PORT, 1, 1) != 0) {
        perror("qexit: ioperm");
        return 1;
    }
    outb((unsigned char)atoi(argv[1]), PORT);
    fprintf(stderr, "qexit: the machine goes on; it has no isa-debug-exit at port %#x\n", PORT);
    return 1;
}
