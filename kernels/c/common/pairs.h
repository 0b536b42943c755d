// EP's work, which EPD shares: Gaussian pairs by the polar method, and their sums.
#ifndef KERNELS_PAIRS_H
#define KERNELS_PAIRS_H

#include "options.h"
#include "verify.h"

// A batch is 2^16 pairs; a class has 2^(log2_pairs - 16) of them.
#define PAIRS_BATCH_LOG2 16
#define PAIRS_RINGS 10

struct pairs {
    double sum_x, sum_y;
    long long rings[PAIRS_RINGS]; // pairs with l <= max(|X|, |Y|) < l + 1
};

// log2 of the number of pairs of the class.
int pairs_log2(const struct options *options);

// Adds the pairs of the batch with this index.
void pairs_batch(struct pairs *sums, long long batch);

// Adds what another thread has summed.
void pairs_add(struct pairs *sums, const struct pairs *other);

// The published sums, and the published numbers of pairs in each ring where there are any.
void pairs_check(struct checks *checks, const struct options *options, const struct pairs *sums);

#endif
