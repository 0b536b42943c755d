// The loop of the ASAT paper: a serial part, then a parallel loop over a grain of elements, again
// and again. Classes S, W, A and B are its grains of 10K, 100K, 1M and 4M elements of 24 bytes;
// `--elements` takes another number of them, for caches of another size than the paper's.
//
// The paper says neither what an element computes nor how long the serial part is. Here an element
// takes `--work` steps of a relaxation, by default as many as take the paper's time for an element
// of the smallest grain (0.2 us) at about 2.5 GHz. The serial part takes as many steps for each of
// the first `--serial` per cent of the elements. One of its steps waits for the one before, so that
// the default of 5 takes about a tenth of the time: this gives the paper's speedup of 2.7 on four
// processors, together with its tenth of the time at joins. Closed forms verify both parts.
//
// Time at joins is, for each thread, from the end of its own part to the end of the region, summed
// and divided by the time of all threads in the timed section, serial parts included.

#include "common/clock.h"
#include "common/options.h"
#include "common/report.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

// Of one step: how much of an element's distance from its goal stays, and of the serial sum.
#define KEPT (1 - 1e-5)
#define CARRIED 0.999

struct class {
    long grain, iterations;
};

static const struct class classes[4] = {
    { 10000, 200 }, { 100000, 50 }, { 1000000, 8 }, { 4000000, 4 },
};

struct elements {
    double *value, *goal, *distance;
};

static double first_value(long i)
{
    return (double)(i % 101) - 50;
}

static double goal_of(long i)
{
    return (double)(i % 37);
}

static void prepare(const struct elements *e, long grain)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < grain; i++) {
        e->value[i] = first_value(i);
        e->goal[i] = goal_of(i);
        e->distance[i] = e->value[i] - e->goal[i];
    }
}

// When a thread was done with its part: a line of its own.
struct stamp {
    _Alignas(128) double done;
};

// Every element moves towards its goal. Returns how long all threads waited at the join; `threads`
// is how many there were.
static double parallel_part(const struct elements *e, long grain, long work, struct stamp *stamps,
                            int *threads)
{
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long i = 0; i < grain; i++) {
            double goal = e->goal[i], value = e->value[i];
            for (long step = 0; step < work; step++)
                value = KEPT * value + (1 - KEPT) * goal;
            e->value[i] = value;
            e->distance[i] = value - goal;
        }
        stamps[omp_get_thread_num()].done = clock_seconds();
        if (omp_get_thread_num() == 0)
            *threads = omp_get_num_threads();
    }
    double end = clock_seconds(), waited = 0;
    for (int i = 0; i < *threads; i++)
        waited += end - stamps[i].done;
    return waited;
}

// A recurrence over the first `length` elements.
static double serial_part(const struct elements *e, long length, long work)
{
    double sum = 0;
    for (long i = 0; i < length; i++) {
        double distance = e->distance[i];
        for (long step = 0; step < work; step++)
            sum = CARRIED * sum + distance;
    }
    return sum;
}

// What one serial part gives for the distances at the start.
static double serial_at_start(long length, long work)
{
    double carried = pow(CARRIED, (double)work), sum = 0;
    for (long i = 0; i < length; i++)
        sum = carried * sum + (first_value(i) - goal_of(i)) * (1 - carried) / (1 - CARRIED);
    return sum;
}

int main(int argc, char **argv)
{
    long work = 120, percent = 5, iterations = 0, elements = 0;
    const struct option_extra extra[] = {
        { "work", "steps of one element", 1, &work },
        { "serial", "elements of the serial part, in per cent", 0, &percent },
        { "iterations", "serial and parallel parts of one repetition; 0: by the class", 0,
          &iterations },
        { "elements", "elements of the parallel loop; 0: by the class", 0, &elements },
        { NULL, NULL, 0, NULL },
    };
    struct options options = options_read(argc, argv, extra);
    const struct class *class = &classes[options_row(&options)];
    long grain = elements > 0 ? elements : class->grain, length = grain * percent / 100;
    if (length > grain)
        length = grain;
    if (iterations == 0)
        iterations = class->iterations;
    struct elements e = {
        .value = report_memory("the elements", (size_t)grain, sizeof(double)),
        .goal = report_memory("the elements", (size_t)grain, sizeof(double)),
        .distance = report_memory("the elements", (size_t)grain, sizeof(double)),
    };
    struct stamp *stamps =
        report_memory("the stamps", (size_t)omp_get_max_threads(), sizeof *stamps);
    double at_joins = 0, of_threads = 0, elapsed = 0;
    struct report report = report_begin("serial_parallel", &options, iterations,
                                        (double)iterations * (double)work
                                            * (3.0 * (double)grain + 2.0 * (double)length));
    while (report_again(&report)) {
        prepare(&e, grain);
        double total = 0;
        report_start(&report);
        for (long i = 0; i < iterations; i++) {
            int threads;
            double begin = clock_seconds();
            total += serial_part(&e, length, work);
            at_joins += parallel_part(&e, grain, work, stamps, &threads);
            double took = clock_seconds() - begin;
            of_threads += took * threads;
            elapsed += took;
        }
        report_stop(&report);

        // In iteration i every distance is `kept`^i of the first one.
        double kept = pow(KEPT, (double)work), sum = 0, worst = 0;
        for (long i = 0; i < iterations; i++)
            sum += pow(kept, (double)i);
        double left = pow(kept, (double)iterations);
        for (long i = 0; i < grain; i++) {
            double expected = goal_of(i) + left * (first_value(i) - goal_of(i));
            double difference = fabs(e.value[i] - expected);
            worst = larger_difference(worst, difference);
        }
        check_close(&report.checks, "largest difference", worst / 50, 0, 1e-9);
        check_close(&report.checks, "sum of the serial parts", total,
                    sum * serial_at_start(length, work), 1e-9);
    }
    report.joins = at_joins / of_threads;
    report.team = of_threads / elapsed;
    return report_end(&report);
}
