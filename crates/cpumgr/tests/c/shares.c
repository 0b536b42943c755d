/*
 * shares PERCENT: a program of which so much is serial, by the clock: what it works for, it sleeps for, so that what else runs
 * on the machine hardly matters. Iterates until it is killed, after it has said that it runs.
 */
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Nanoseconds of an iteration on one processor. */
static const long WORK = 100 * 1000 * 1000;

static void work(long nanoseconds)
{
    struct timespec rest = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR)
        ;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long percent = argc == 2 ? strtol(argv[1], &end, 10) : -1;
    if (percent < 0 || percent > 100 || *end) {
        fprintf(stderr, "usage: shares PERCENT\n");
        return 2;
    }
    puts("runs");
    fflush(stdout);
    long serial = WORK / 100 * percent;
    for (;;) {
        work(serial);
#pragma omp parallel
        work((WORK - serial) / omp_get_num_threads());
    }
}
