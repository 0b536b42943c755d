/* Runs regions of no number of their own; for each byte of its input, prints the size of one that
 * began after that. Ends with its input. */
#include <omp.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (;;) {
        int asked = poll(&input, 1, 1) > 0;
        char byte;
        if (asked && read(0, &byte, 1) != 1)
            return 0;
        int size = 0;
#pragma omp parallel reduction(+ : size)
        size += 1;
        if (asked) {
            printf("%d\n", size);
            fflush(stdout);
        }
    }
}
