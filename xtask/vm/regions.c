// Empty parallel regions of the OpenMP library that is linked, with the marks of
// `cargo xtask vm smp --count`: regions THREADS REGIONS [task]. With `task` the first one, before
// the marks, creates a task, so that a library that remembers which regions create any has seen it.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 30 };

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "task") != 0)) {
        fprintf(stderr, "usage: regions THREADS REGIONS [task]\n");
        return 2;
    }
    int threads = atoi(argv[1]), regions = atoi(argv[2]), creates = argc == 4;
    for (int region = -WARM_UP; region <= regions; region++) {
        if (region == 0) {
            __asm__ volatile(".ascii \"\\x0f\\x1f\\x80PHAS\"" ::: "memory");
        }
        if (region >= 0) {
            __asm__ volatile(".ascii \"\\x0f\\x1f\\x80REGN\"" ::: "memory");
        }
#pragma omp parallel num_threads(threads) firstprivate(creates)
        {
            if (creates) {
#pragma omp task
                __asm__ volatile("" ::: "memory");
            }
            __asm__ volatile("" ::: "memory");
        }
        creates = 0;
    }
    return 0;
}
