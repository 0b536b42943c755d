// EP of the NAS parallel benchmarks: Gaussian pairs from uniform random numbers, their sums, and
// how many lie in each square ring. One parallel loop over batches.

#include "common/options.h"
#include "common/pairs.h"
#include "common/report.h"

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    int log2_pairs = pairs_log2(&options);
    long long batches = 1LL << (log2_pairs - PAIRS_BATCH_LOG2);
    // The benchmark counts random numbers, two a pair.
    struct report report = report_begin("ep", &options, 1, 2.0 * (double)(1LL << log2_pairs));
    while (report_again(&report)) {
        report_start(&report);
        struct pairs sums = { 0 };
#pragma omp parallel
        {
            struct pairs own = { 0 };
#pragma omp for schedule(static) nowait
            for (long long batch = 0; batch < batches; batch++)
                pairs_batch(&own, batch);
#pragma omp critical
            pairs_add(&sums, &own);
        }
        report_stop(&report);
        pairs_check(&report.checks, &options, &sums);
    }
    return report_end(&report);
}
