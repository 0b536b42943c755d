/* A user without any privilege that means harm: `hostile ATTACK SECONDS` at the socket of the
 * manager of the machine. It prints how often it did what, in one line, and fails when it could
 * not do that at all: an attack that does not take place proves nothing. What happened to others
 * is for the checks to say. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKET "/run/cpumgr/app.sock"
/* As in the crate arena: the longest packet, and the size of the area that a program writes. */
#define LONGEST (32 * 1024)
#define UP_SIZE (17 * 4096)
#define CONNECTIONS 4000
#define DESCRIPTORS 253

static const char STATUS[] = "{\"version\":1,\"type\":\"status\"}";
static const char ANNOUNCE[] = "{\"version\":1,\"type\":\"announce\"}";
static char answer[LONGEST + 1];
static double end_at;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int goes_on(void) { return now() < end_at; }

static uint32_t next_random(void) {
    static uint32_t x = 2463534242u;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x;
}

/* A connection; -1: the kernel or the manager would not have it now. */
static int enter(int flags) {
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    struct timeval patience = {.tv_usec = 200000};
    int at = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (at < 0) return -1;
    setsockopt(at, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(at, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(at, (struct sockaddr *)&to, sizeof to) == 0) return at;
    close(at);
    return -1;
}

/* 1: it was sent. */
static int say(int at, const void *what, size_t length) {
    return send(at, what, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* What the manager says next, and the descriptors that come with it; 0: nothing. */
static int hear(int at, int *descriptors, int most) {
    union { char room[CMSG_SPACE(sizeof(int) * 8)]; struct cmsghdr head; } control;
    struct iovec part = {.iov_base = answer, .iov_len = LONGEST};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                          .msg_controllen = sizeof control};
    ssize_t length = recvmsg(at, &head, MSG_CMSG_CLOEXEC);
    int count = 0;
    if (length <= 0) return 0;
    answer[length] = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
        int given[8], n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (c->cmsg_type != SCM_RIGHTS) continue;
        memcpy(given, CMSG_DATA(c), n * sizeof(int));
        for (int i = 0; i < n; i++) {
            if (count < most) descriptors[count++] = given[i];
            else close(given[i]);
        }
    }
    return 1;
}

static int is_answer(const char *type) {
    char words[64];
    snprintf(words, sizeof words, "\"type\":\"%s\"", type);
    return strstr(answer, words) != NULL;
}

/* Registers with a wish that no machine can fulfil; the connection, or -1. Its descriptors: the
 * area that it reads, the one that it writes, the doorbell, the page of all programs. */
static int enrol(int descriptors[4]) {
    static const char words[] =
        "{\"version\":1,\"type\":\"register\",\"layout\":2,\"max_processors\":4294967295,"
        "\"request\":4294967295,\"library\":\"\\u001b[2J\\u202e\",\"within\":null,"
        "\"held\":{\"epoch\":4294967295,\"cpus\":[0,1,2,3,1023,4294967295]}}";
    int at = enter(0);
    for (int i = 0; i < 4; i++) descriptors[i] = -1;
    if (at < 0) return -1;
    if (say(at, words, sizeof words - 1)) {
        /* A turn takes as long as its user owes. */
        for (int tries = 0; tries < 20; tries++) {
            if (!hear(at, descriptors, 4)) {
                if (errno == EAGAIN) continue;
                break;
            }
            if (is_answer("registered")) return at;
            break;
        }
    }
    for (int i = 0; i < 4; i++) if (descriptors[i] >= 0) close(descriptors[i]);
    close(at);
    return -1;
}

static void leave(int at, int descriptors[4]) {
    for (int i = 0; i < 4; i++) if (descriptors[i] >= 0) close(descriptors[i]);
    close(at);
}

/* --- attacks: each says how often it did its worst */

static long connects(void) {
    long count = 0;
    while (goes_on()) {
        int at = enter(SOCK_NONBLOCK);
        if (at >= 0) count++, close(at);
    }
    return count;
}

/* As many as there may be at once, each of them silent; those that were hung up come again. */
static long crowds(void) {
    static struct pollfd all[CONNECTIONS];
    long count = 0;
    for (int i = 0; i < CONNECTIONS; i++) all[i].fd = -1, all[i].events = POLLIN;
    while (goes_on()) {
        for (int i = 0; i < CONNECTIONS && goes_on(); i++) {
            if (all[i].fd < 0 && (all[i].fd = enter(SOCK_NONBLOCK)) >= 0) count++;
        }
        poll(all, CONNECTIONS, 10);
        for (int i = 0; i < CONNECTIONS; i++) {
            if (all[i].fd >= 0 && all[i].revents) close(all[i].fd), all[i].fd = -1;
        }
    }
    return count;
}

static long asks(void) {
    long count = 0;
    while (goes_on()) {
        int at = enter(0);
        if (at < 0) continue;
        while (goes_on() && say(at, STATUS, sizeof STATUS - 1) && hear(at, NULL, 0)) count++;
        close(at);
    }
    return count;
}

/* Questions without end, and no answer is read. */
static long never_reads(void) {
    int all[64];
    long count = 0;
    for (int i = 0; i < 64; i++) all[i] = -1;
    while (goes_on()) {
        for (int i = 0; i < 64; i++) {
            if (all[i] < 0 && (all[i] = enter(SOCK_NONBLOCK)) < 0) continue;
            if (say(all[i], STATUS, sizeof STATUS - 1)) count++;
            else if (errno != EAGAIN) close(all[i]), all[i] = -1;
        }
    }
    return count;
}

static long announces(void) {
    long count = 0;
    while (goes_on()) {
        int at = enter(0);
        if (at < 0) continue;
        if (say(at, ANNOUNCE, sizeof ANNOUNCE - 1) && hear(at, NULL, 0)) count++;
        close(at);
    }
    return count;
}

static long enrols(void) {
    long count = 0;
    while (goes_on()) {
        int descriptors[4], at = enrol(descriptors);
        if (at >= 0) count++, leave(at, descriptors);
    }
    return count;
}

/* Packets that are too long, cut off, empty, or have bytes that do not belong there. */
static long babbles(void) {
    static char packet[LONGEST + 1000];
    long count = 0;
    while (goes_on()) {
        int at = enter(0);
        size_t length = sizeof STATUS - 1;
        if (at < 0) continue;
        memcpy(packet, STATUS, length);
        switch (next_random() % 4) {
        case 0: length = sizeof packet; memset(packet, '{', length); break;
        case 1: length = next_random() % length; break;
        case 2: length = LONGEST; memset(packet, '[', length); break;
        default: packet[next_random() % length] = (char)next_random();
        }
        if (say(at, packet, length)) count++;
        hear(at, NULL, 0);
        close(at);
    }
    return count;
}

/* With each message as many descriptors as the kernel carries: the last ones of large files. */
static long burdens(void) {
    union { char room[CMSG_SPACE(sizeof(int) * DESCRIPTORS)]; struct cmsghdr head; } control;
    long count = 0;
    while (goes_on()) {
        int given[DESCRIPTORS], file = memfd_create("burden", MFD_CLOEXEC), at = enter(0);
        struct iovec part = {.iov_base = (void *)STATUS, .iov_len = sizeof STATUS - 1};
        struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control};
        if (file >= 0 && at >= 0 && ftruncate(file, 1 << 20) == 0) {
            for (int i = 0; i < DESCRIPTORS; i++) given[i] = file;
            memset(&control, 0, sizeof control);
            control.head.cmsg_level = SOL_SOCKET;
            control.head.cmsg_type = SCM_RIGHTS;
            control.head.cmsg_len = CMSG_LEN(sizeof given);
            memcpy(CMSG_DATA(&control.head), given, sizeof given);
            if (sendmsg(at, &head, MSG_NOSIGNAL) > 0) count++;
        }
        if (file >= 0) close(file);
        if (at >= 0) hear(at, NULL, 0), close(at);
    }
    return count;
}

/* Random bytes in the area that it writes, and its doorbell as fast as it can. */
static long rings(void) {
    int descriptors[4], at = enrol(descriptors);
    uint64_t one = 1;
    long count = 0;
    if (at < 0) return 0;
    uint32_t *up = mmap(NULL, UP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[1], 0);
    if (up == MAP_FAILED) return 0;
    while (goes_on()) {
        for (int i = 0; i < 64; i++) up[next_random() % (UP_SIZE / 4)] = next_random();
        if (write(descriptors[2], &one, sizeof one) == sizeof one) count++;
    }
    leave(at, descriptors);
    return count;
}

/* Programs that are killed at any step of their registration. */
static long dies(void) {
    long count = 0;
    while (goes_on()) {
        pid_t child = fork();
        if (child == 0) {
            int descriptors[4];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            enrol(descriptors);
            for (;;) pause();
        }
        if (child < 0) continue;
        poll(NULL, 0, (int)(next_random() % 60));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        count++;
    }
    return count;
}

/* A name that clears a screen, and maps that name a pipe and a file of 64 GiB as its OpenMP
 * library: what reads them on its way to a report waits, or takes all memory. */
static long masks_itself(void) {
    char folder[] = "/tmp/hostile.XXXXXX", library[64], pipe_there[96];
    int descriptors[4];
    prctl(PR_SET_NAME, "\033[2J\nteam\r");
    if (!mkdtemp(folder)) return 0;
    snprintf(library, sizeof library, "%s/libgomp.so.1", folder);
    snprintf(pipe_there, sizeof pipe_there, "%s (deleted)", library);
    int file = open(library, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    void *gone = MAP_FAILED;
    if (file >= 0 && ftruncate(file, 4096) == 0)
        gone = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (gone == MAP_FAILED || unlink(library) != 0 || mkfifo(pipe_there, 0644) != 0) return 0;
    file = open(library, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, 64L << 30) != 0) return 0;
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) return 0;
    int at = enrol(descriptors);
    if (at < 0) return 0;
    while (goes_on()) poll(NULL, 0, 100);
    leave(at, descriptors);
    unlink(library);
    unlink(pipe_there);
    rmdir(folder);
    return 1;
}

/* Short programs under the manager, as many at once as make a crowd. */
static long starts(void) {
    long count = 0;
    while (goes_on()) {
        int begun = 0;
        for (int i = 0; i < 8; i++) {
            pid_t child = fork();
            if (child == 0) {
                int nowhere = open("/dev/null", O_RDWR);
                dup2(nowhere, 0), dup2(nowhere, 1), dup2(nowhere, 2);
                execl("/usr/bin/cpumgr", "cpumgr", "run", "--", "/bin/true", (char *)NULL);
                _exit(127);
            }
            if (child > 0) begun++;
        }
        for (int state; begun > 0 && wait(&state) > 0; begun--)
            if (WIFEXITED(state) && WEXITSTATUS(state) == 0) count++;
    }
    return count;
}

/* One that asks for all processors and sleeps. */
static long sleeps(void) {
    int descriptors[4], at = enrol(descriptors);
    if (at < 0) return 0;
    while (goes_on()) poll(NULL, 0, 100);
    leave(at, descriptors);
    return 1;
}

static void *computes(void *nothing) {
    while (goes_on()) for (volatile int i = 0; i < 100000; i++) {}
    return nothing;
}

/* One that asks for all processors and uses them. */
static long works(void) {
    int descriptors[4], at = enrol(descriptors);
    pthread_t all[4];
    if (at < 0) return 0;
    for (int i = 0; i < 4; i++) if (pthread_create(&all[i], NULL, computes, NULL) != 0) return 0;
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    leave(at, descriptors);
    return 1;
}

static void *waits(void *nothing) {
    while (goes_on()) poll(NULL, 0, 1000);
    return nothing;
}

/* A process of 1,201 threads that wait, and speaks to no manager. */
static long threads(void) {
    pthread_attr_t small;
    pthread_t one;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (int i = 0; i < 1200; i++) if (pthread_create(&one, &small, waits, NULL) != 0) return 0;
    waits(NULL);
    return 1201;
}

/* An administrator that asks for a trace at a place that does not answer. */
static long traces(void) {
    static const char words[] =
        "{\"version\":1,\"type\":\"control\",\"what\":\"trace-start\","
        "\"path\":\"/srv/stuck/trace\",\"most\":65536}";
    int at = enter(0);
    if (at < 0) return 0;
    long count = say(at, words, sizeof words - 1) && hear(at, NULL, 0) && is_answer("done");
    close(at);
    return count;
}

static const struct { const char *name; long (*attack)(void); } ATTACKS[] = {
    {"connects", connects}, {"crowds", crowds},       {"asks", asks},
    {"never-reads", never_reads}, {"announces", announces}, {"enrols", enrols},
    {"babbles", babbles},   {"burdens", burdens},     {"rings", rings},
    {"dies", dies},         {"masks-itself", masks_itself}, {"starts", starts},
    {"sleeps", sleeps},     {"works", works},         {"threads", threads},
    {"traces", traces},
};

int main(int count, char **words) {
    struct rlimit files;
    if (count != 3) {
        fprintf(stderr, "hostile ATTACK SECONDS\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    end_at = now() + atof(words[2]);
    for (size_t i = 0; i < sizeof ATTACKS / sizeof *ATTACKS; i++) {
        if (strcmp(ATTACKS[i].name, words[1]) == 0) {
            long did = ATTACKS[i].attack();
            printf("%s %ld\n", words[1], did);
            return did > 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "hostile: there is no attack %s\n", words[1]);
    return 2;
}
