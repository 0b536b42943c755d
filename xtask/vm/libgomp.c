// Empty parallel regions of the system's OpenMP, with the marks of `cargo xtask vm smp --count`: libgomp THREADS REGIONS.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 30 };

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: libgomp THREADS REGIONS\n");
        return 2;
    }
    int threads = atoi(argv[1]), regions = atoi(argv[2]);
    for (int region = -WARM_UP; region <= regions; region++) {
        if (region == 0) {
            __asm__ volatile(".ascii \"\\x0f\\x1f\\x80PHAS\"" ::: "memory");
        }
        if (region >= 0) {
            __asm__ volatile(".ascii \"\\x0f\\x1f\\x80REGN\"" ::: "memory");
        }
#pragma omp parallel num_threads(threads)
        __asm__ volatile("" ::: "memory");
    }
    return 0;
}
