#include "report.h"

#include "clock.h"

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Pages, so that the first touch of one array never places another one.
#define BOUNDARY 4096

void *report_memory(const char *what, size_t count, size_t size)
{
    void *memory = NULL;
    if (count == 0 || size <= (SIZE_MAX - BOUNDARY) / count)
        memory = aligned_alloc(BOUNDARY, (count * size + BOUNDARY - 1) / BOUNDARY * BOUNDARY);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %s: %zu x %zu bytes; take a smaller class\n", what, count,
                size);
        exit(1);
    }
    return memory;
}

struct report report_begin(const char *kernel, const struct options *options, long iterations,
                           double operations)
{
    return (struct report){
        .kernel = kernel,
        .options = *options,
        .threads = omp_get_max_threads(),
        .iterations = iterations,
        .operations = operations,
        .begun = clock_seconds(),
        .joins = -1,
        .team = -1,
    };
}

bool report_again(struct report *report)
{
    if (report->repetitions > 0) {
        if (!checks_passed(&report->checks))
            return false;
        if (report->options.seconds > 0) {
            if (clock_seconds() - report->begun >= report->options.seconds)
                return false;
        } else if (report->repetitions >= (size_t)report->options.repeat) {
            return false;
        }
    }
    checks_clear(&report->checks);
    return true;
}

void report_start(struct report *report)
{
    report->started = clock_seconds();
}

void report_stop(struct report *report)
{
    double seconds = clock_seconds() - report->started;
    if (report->repetitions == report->room) {
        report->room = report->room == 0 ? 64 : 2 * report->room;
        report->seconds = realloc(report->seconds, report->room * sizeof report->seconds[0]);
        if (report->seconds == NULL) {
            fprintf(stderr, "no memory for %zu times\n", report->room);
            exit(1);
        }
    }
    report->seconds[report->repetitions++] = seconds;
}

// JSON knows no infinity and no "not a number".
static void print_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
    else
        printf("null");
}

static void print_json(const struct report *report, double total, double mops, bool verified)
{
    printf("{\"kernel\":\"%s\",\"language\":\"c\",\"class\":\"%c\",\"threads\":%d,"
           "\"repetitions\":%zu,\"seconds\":[",
           report->kernel, report->options.class, report->threads, report->repetitions);
    for (size_t i = 0; i < report->repetitions; i++)
        printf("%s%.9g", i == 0 ? "" : ",", report->seconds[i]);
    printf("],\"iterations\":%ld,\"seconds_per_iteration\":%.9g,\"mops\":", report->iterations,
           total / ((double)report->repetitions * (double)report->iterations));
    print_number(mops);
    if (report->joins >= 0)
        printf(",\"joins\":%.6f", report->joins);
    if (report->team >= 0)
        printf(",\"team\":%.6f", report->team);
    printf(",\"verified\":%s,\"checks\":[", verified ? "true" : "false");
    for (size_t i = 0; i < report->checks.count; i++) {
        const struct check *check = &report->checks.list[i];
        printf("%s{\"name\":\"%s\",\"value\":", i == 0 ? "" : ",", check->name);
        print_number(check->value);
        printf(",\"expected\":");
        print_number(check->expected);
        printf(",\"error\":");
        print_number(check->error);
        printf("}");
    }
    printf("]}\n");
}

static void print_text(const struct report *report, double total, double mops, bool verified)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < report->repetitions; i++) {
        least = fmin(least, report->seconds[i]);
        most = fmax(most, report->seconds[i]);
    }
    printf("%s class %c, %d thread%s, %ld iterations, %zu repetition%s\n", report->kernel,
           report->options.class, report->threads, report->threads == 1 ? "" : "s",
           report->iterations, report->repetitions, report->repetitions == 1 ? "" : "s");
    printf("  %.6f s a repetition (%.6f to %.6f), %.1f Mop/s\n",
           total / (double)report->repetitions, least, most, mops);
    const struct check *worst = &report->checks.list[0];
    for (size_t i = 1; i < report->checks.count; i++)
        if (!(report->checks.list[i].error <= worst->error))
            worst = &report->checks.list[i];
    printf("  %s: %zu checks, largest error %.3g (%s)\n",
           verified ? "verified" : "VERIFICATION FAILED", report->checks.count, worst->error,
           worst->name);
}

int report_end(struct report *report)
{
    bool verified = checks_passed(&report->checks);
    for (size_t i = 0; i < report->checks.count; i++) {
        const struct check *check = &report->checks.list[i];
        if (!check->passed)
            fprintf(stderr,
                    "%s class %c: verification failed in repetition %zu: %s is %.15g, expected "
                    "%.15g, relative error %.3g (allowed %.3g)\n",
                    report->kernel, report->options.class, report->repetitions, check->name,
                    check->value, check->expected, check->error, check->tolerance);
    }
    if (report->checks.count == 0)
        fprintf(stderr, "%s class %c: nothing was verified\n", report->kernel,
                report->options.class);
    double total = 0;
    for (size_t i = 0; i < report->repetitions; i++)
        total += report->seconds[i];
    double mops = report->operations * (double)report->repetitions / total * 1e-6;
    if (!report->options.quiet && report->checks.count > 0)
        print_text(report, total, mops, verified);
    if (report->options.json)
        print_json(report, total, mops, verified);
    // A failed write before the last one shows in the stream alone.
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: the result could not be written\n", report->kernel);
        return 1;
    }
    return verified ? 0 : 1;
}
