// The fork/join paper's synthetic "overhead": 1,000 parallel loops of equal, independent
// iterations, one after another, so that what they take above the work itself is the runtime's.
//
// Classes S, W and A have the bodies of its Figure 3: 4,000, 50,000 and 400,000 iterations (100 us,
// 1.2 ms, 10 ms there); class B has the 4,096 iterations of Figure 4. `--sections 4` makes two
// levels of it (there: "2L2"): each of four threads forks its quarter of the iterations on its
// share of the threads.
//
// An iteration takes STEPS steps of the random numbers, about 25 ns at 2.5 GHz as there (a processor
// works at several iterations at once); jumping ahead in the sequence verifies every element.

#include "common/clock.h"
#include "common/options.h"
#include "common/random.h"
#include "common/report.h"

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>

#define STEPS 44

static const long bodies[4] = { 4000, 50000, 400000, 4096 };

static uint64_t first(long i)
{
    return 2 * (uint64_t)i + 1;
}

static inline void iteration(uint64_t *element)
{
    uint64_t x = *element;
    for (int step = 0; step < STEPS; step++)
        x = random_times(RANDOM_A, x);
    *element = x;
}

static void one_level(uint64_t *element, long from, long to, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long i = from; i < to; i++)
        iteration(&element[i]);
}

static void two_levels(uint64_t *element, long body, int sections, int threads)
{
#pragma omp parallel for schedule(static, 1) num_threads(sections)
    for (int section = 0; section < sections; section++) {
        // The threads that do not divide go to the first sections.
        int own = threads / sections + (section < threads % sections);
        one_level(element, body * section / sections, body * (section + 1) / sections,
                  own > 0 ? own : 1);
    }
}

// The shortest time of one body without any runtime.
static double body_alone(uint64_t *element, long body)
{
    double least = INFINITY;
    for (int try = 0; try < 5; try++) {
        double begun = clock_seconds();
        for (long i = 0; i < body; i++)
            iteration(&element[i]);
        least = fmin(least, clock_seconds() - begun);
    }
    return least;
}

int main(int argc, char **argv)
{
    long regions = 1000, body = 0, sections = 1;
    const struct option_extra extra[] = {
        { "regions", "parallel loops of one repetition", 1, &regions },
        { "body", "iterations of one loop; 0: by the class", 0, &body },
        { "sections", "threads of the outer level; 1: one level", 1, &sections },
        { NULL, NULL, 0, NULL },
    };
    struct options options = options_read(argc, argv, extra);
    if (body == 0)
        body = bodies[options_row(&options)];
    if (sections > 1)
        omp_set_max_active_levels(2);
    uint64_t *element = report_memory("the elements", (size_t)body, sizeof element[0]);
    struct report report = report_begin("overhead", &options, regions,
                                        (double)regions * (double)body * STEPS);
    double alone = 0, total = 0;
    while (report_again(&report)) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < body; i++)
            element[i] = first(i);
        if (report.repetitions == 0) {
            alone = body_alone(element, body);
            for (long i = 0; i < body; i++)
                element[i] = first(i);
        }
        report_start(&report);
        for (long region = 0; region < regions; region++) {
            if (sections > 1)
                two_levels(element, body, (int)sections, report.threads);
            else
                one_level(element, 0, body, report.threads);
        }
        report_stop(&report);
        total += report.seconds[report.repetitions - 1];
        uint64_t jump = random_power(RANDOM_A, (uint64_t)STEPS * (uint64_t)regions);
        long wrong = 0;
        for (long i = 0; i < body; i++)
            wrong += element[i] != random_times(jump, first(i));
        check_equal(&report.checks, "elements that differ", wrong, 0);
    }
    if (!options.quiet) {
        double region = total / (double)report.repetitions / (double)regions;
        printf("overhead: a region takes %.3f us; its body alone %.3f us, on %d threads at best "
               "%.3f us\n",
               region * 1e6, alone * 1e6, report.threads, alone / report.threads * 1e6);
    }
    return report_end(&report);
}
