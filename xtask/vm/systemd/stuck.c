/* A file system that never answers: `stuck DIRECTORY`. It mounts one there by FUSE, says "stuck" when
 * the kernel has met it, and leaves every later request without an answer until it is killed, which
 * fails them all. Exit code 77: this kernel has no FUSE. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static char request[256 * 1024];

int main(int count, char **words) {
    char options[128];
    if (count != 2) {
        fprintf(stderr, "stuck DIRECTORY\n");
        return 2;
    }
    int module = open("/opt/fuse.ko", O_RDONLY | O_CLOEXEC);
    /* It may be built in, or there already. */
    if (module >= 0) syscall(SYS_finit_module, module, "", 0);
    int at = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", at);
    if (at < 0 || mount("stuck", words[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        perror("stuck");
        return 77;
    }
    for (;;) {
        ssize_t length = read(at, request, sizeof request);
        const struct fuse_in_header *asked = (const struct fuse_in_header *)request;
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return 0;
        if (asked->opcode != FUSE_INIT) continue;
        struct {
            struct fuse_out_header head;
            struct fuse_init_out body;
        } said = {
            .head = {.len = sizeof said, .unique = asked->unique},
            .body = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
                     .max_readahead = 4096, .max_write = 4096, .max_background = 16,
                     .congestion_threshold = 12},
        };
        if (write(at, &said, sizeof said) != (ssize_t)sizeof said) return 1;
        printf("stuck\n");
        fflush(stdout);
    }
}
