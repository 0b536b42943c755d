// A parallel program that says how large its team is, and when that changes: lines "TIME SIZE" in
// milliseconds of the monotonic clock. A third argument makes it do harm: `defy`, each of its threads
// binds itself to all processors, again and again; `close`, `close-range` and `reuse`, after its
// first region it closes all descriptors but the standard ones, each by itself or all at once, and
// opens its own at their numbers. `PATH.own` says then that these are what it opened still.
#define _GNU_SOURCE
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

enum { LAST = 256, PAGE = 4096 };
static int own[LAST], owned;

// Closes everything; past the C library where that is asked for at once.
static void close_all(const char *how) {
    if (strcmp(how, "close") == 0) {
        for (int number = 3; number < 1024; number++) close(number);
    } else {
        syscall(SYS_close_range, 3U, ~0U, 0U);
    }
}

// Files of its own at the lowest free numbers, which have been others': what still writes to those
// leaves its traces there.
static void reuse(const char *log) {
    char path[PAGE];
    snprintf(path, sizeof path, "%s.own", log);
    while (owned < 64) {
        int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (file < 0) return;
        own[owned++] = file;
    }
}

// Whether nothing but this program has touched them.
static int untouched(void) {
    for (int i = 0; i < owned; i++) {
        struct stat data;
        if (fstat(own[i], &data) != 0 || !S_ISREG(data.st_mode) || data.st_size != 0) return 0;
        if (lseek(own[i], 0, SEEK_CUR) != 0) return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "team SECONDS LOG [defy | close | close-range | reuse]\n");
        return 2;
    }
    const char *harm = argc > 3 ? argv[3] : "";
    int defies = strcmp(harm, "defy") == 0, closes = *harm && !defies;
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
        if (closes) {
            fclose(log);
            close_all(harm);
            if (strcmp(harm, "reuse") == 0) reuse(argv[2]);
            log = fopen(argv[2], "w");
            if (!log) return 1;
            closes = 0, before = 0;
        }
        if (!untouched()) {
            fprintf(log, "%ld harmed\n", now_ms());
            fflush(log);
            return 1;
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
