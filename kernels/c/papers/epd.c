// EPD, the evolving EP of the papers: the number of processors that it asks for goes 2, 4, ...,
// MAX - 2, MAX, MAX, MAX - 2, ..., 2, where MAX is the number of threads that it starts with.
//
// The papers say no more about it than these requests: here each of them is one parallel loop over
// an equal share of EP's batches, and EP's sums verify it.

#include "common/options.h"
#include "common/pairs.h"
#include "common/report.h"

// The request of step `step` of `steps`, which is twice the number of different requests.
static int request(int step, int steps, int most)
{
    int rung = step < steps / 2 ? step : steps - 1 - step;
    int threads = 2 * (rung + 1);
    return threads < most ? threads : most;
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
        for (int step = 0; step < steps; step++) {
            long long from = batches * step / steps, to = batches * (step + 1) / steps;
#pragma omp parallel num_threads(request(step, steps, most))
            {
                struct pairs own = { 0 };
#pragma omp for schedule(static) nowait
                for (long long batch = from; batch < to; batch++)
                    pairs_batch(&own, batch);
#pragma omp critical
                pairs_add(&sums, &own);
            }
        }
        report_stop(&report);
        pairs_check(&report.checks, &options, &sums);
    }
    return report_end(&report);
}
