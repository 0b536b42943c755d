// EPD, the evolving EP of the papers: the number of processors that it asks for goes 2, 4, ...,
// MAX - 2, MAX, MAX, MAX - 2, ..., 2, where MAX is the number of threads that it starts with.
//
// The papers say no more about it than these requests: here each of them is one parallel loop over
// an equal share of EP's batches, and EP's sums verify it. That it evolves is verified by the sizes
// of the teams that it got.

#include "common/options.h"
#include "common/pairs.h"
#include "common/report.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

// The request of step `step` of `steps`, which is twice the number of different requests.
static int request(int step, int steps, int most)
{
    int rung = step < steps / 2 ? step : steps - 1 - step;
    int threads = 2 * (rung + 1);
    return threads < most ? threads : most;
}

// The teams of one pass through all requests.
struct teams {
    long threads; // of all of them
    int largest;
};

// Whether the runtime may give fewer threads than are asked for: OpenMP's own rules, and this
// project's library where all teams follow a manager.
static bool may_shrink(int most)
{
    const char *adapt = getenv("NANOS_ADAPT");
    return omp_get_dynamic() || omp_get_thread_limit() < most
           || (adapt != NULL && strcmp(adapt, "all") == 0);
}

// 2 + 4 + ... + MAX twice, where an odd MAX follows MAX - 1.
static void check_teams(struct checks *checks, const struct teams *teams, int most)
{
    const long half = most / 2, expected = 2 * (half * (half + 1) + most % 2 * most);
    if (may_shrink(most)) {
        check_equal(checks, "threads above the requests",
                    teams->threads > expected ? teams->threads - expected : 0, 0);
        return;
    }
    check_equal(checks, "threads of all teams", teams->threads, expected);
    check_equal(checks, "threads of the largest team", teams->largest, most);
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    int log2_pairs = pairs_log2(&options);
    long long batches = 1LL << (log2_pairs - PAIRS_BATCH_LOG2);
    struct report report = report_begin("epd", &options, 0, 2.0 * (double)(1LL << log2_pairs));
    int most = report.threads, steps = 2 * ((most + 1) / 2);
    report.iterations = steps;
    while (report_again(&report)) {
        report_start(&report);
        struct pairs sums = { 0 };
        struct teams teams = { 0 };
        for (int step = 0; step < steps; step++) {
            long long from = batches * step / steps, to = batches * (step + 1) / steps;
#pragma omp parallel num_threads(request(step, steps, most))
            {
                struct pairs own = { 0 };
#pragma omp for schedule(static) nowait
                for (long long batch = from; batch < to; batch++)
                    pairs_batch(&own, batch);
#pragma omp critical
                {
                    const int size = omp_get_num_threads();
                    pairs_add(&sums, &own);
                    teams.threads++;
                    teams.largest = size > teams.largest ? size : teams.largest;
                }
            }
        }
        report_stop(&report);
        pairs_check(&report.checks, &options, &sums);
        check_teams(&report.checks, &teams, most);
    }
    return report_end(&report);
}
