// A parallel program that says how large its team is, and when that changes: lines "TIME SIZE" in
// milliseconds of the monotonic clock. The third argument makes it disobey: each of its threads
// binds itself to all processors, again and again.
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

static void work(long ms, int defies) {
    long end = now_ms() + ms;
    do {
        if (defies) {
            unsigned long all[16];
            for (int i = 0; i < 16; i++) all[i] = ~0UL;
            // Past the C library, which the drop-in library stands in front of.
            syscall(SYS_sched_setaffinity, 0, sizeof all, all);
        }
        for (volatile int i = 0; i < 20000; i++) {}
    } while (now_ms() < end);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "team SECONDS LOG [defy]\n");
        return 2;
    }
    int defies = argc > 3;
    long end = now_ms() + atol(argv[1]) * 1000;
    FILE *log = fopen(argv[2], "w");
    if (!log) {
        perror(argv[2]);
        return 1;
    }
    int before = 0;
    while (now_ms() < end) {
        int size = 0;
        #pragma omp parallel
        {
            #pragma omp master
            size = omp_get_num_threads();
            work(defies ? 300 : 3, defies);
        }
        if (size != before) {
            fprintf(log, "%ld %d\n", now_ms(), size);
            fflush(log);
            before = size;
        }
    }
    fprintf(log, "%ld end\n", now_ms());
    return fclose(log) != 0;
}
