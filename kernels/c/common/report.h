// Repeats a kernel's timed section for as long as asked and reports it, as text and as JSON.
//
//     struct report report = report_begin("cg", &options, iterations, operations);
//     while (report_again(&report)) {
//         ... prepare, not timed ...
//         report_start(&report);
//         ... the timed section ...
//         report_stop(&report);
//         check_close(&report.checks, "zeta", zeta, expected, 1e-10);
//     }
//     return report_end(&report);
//
// Every repetition is checked; the first one that fails is the last one.
#ifndef KERNELS_REPORT_H
#define KERNELS_REPORT_H

#include "options.h"
#include "verify.h"

#include <stdbool.h>
#include <stddef.h>

struct report {
    const char *kernel;
    struct options options;
    int threads;
    long iterations;      // of one repetition
    double operations;    // of one repetition, as the benchmark counts them
    struct checks checks; // of the last repetition
    double *seconds;      // one a repetition
    size_t repetitions, room;
    double begun, started;
    double joins; // share of the threads' time at joins, all repetitions; below 0: not measured
    double team;  // threads of a region, their mean over the time; below 0: not measured
};

struct report report_begin(const char *kernel, const struct options *options, long iterations,
                           double operations);

// Whether another repetition is due. After a failed check: no.
bool report_again(struct report *report);

// The two ends of the timed section.
void report_start(struct report *report);
void report_stop(struct report *report);

// Prints the result; on stderr each check that failed. The program's exit code: 0, or 1 where a
// check failed.
int report_end(struct report *report);

// Memory on a line boundary, not touched yet; where there is none: an error and exit code 1.
void *report_memory(const char *what, size_t count, size_t size);

#endif
