/*
 * shares PERCENT [ITERATIONS]: a program of which PERCENT is serial. Without ITERATIONS it works by
 * the clock: it sleeps for the time of its work, so that other load on the machine hardly matters;
 * it says that it runs, and iterates until it is killed. With ITERATIONS it computes for that number
 * of iterations, and prints the seconds of the whole.
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

/* Steps of an iteration that computes: some 20 ms. */
static const long STEPS = 10 * 1000 * 1000;

static void compute(long steps)
{
    volatile double x = 1;
    for (long step = 0; step < steps; step++)
        x = x * 0.999 + 1;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void iterate(long percent, long iterations)
{
    double begin = seconds();
    long serial = STEPS / 100 * percent;
    for (long iteration = 0; iteration < iterations; iteration++) {
        compute(serial);
#pragma omp parallel
        compute((STEPS - serial) / omp_get_num_threads());
    }
    printf("%.6f\n", seconds() - begin);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long percent = argc >= 2 && argc <= 3 ? strtol(argv[1], &end, 10) : -1;
    if (percent < 0 || percent > 100 || *end) {
        fprintf(stderr, "usage: shares PERCENT [ITERATIONS]\n");
        return 2;
    }
    if (argc == 3) {
        iterate(percent, atol(argv[2]));
        return 0;
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
