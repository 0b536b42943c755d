// A number that stands for a whole field: the sum of its values, each by a pseudorandom weight of
// its own. Any other value anywhere changes it in proportion, in whatever direction the field lies,
// where a norm would notice only what is not orthogonal to the field.
#ifndef KERNELS_DIGEST_H
#define KERNELS_DIGEST_H

#include "random.h"

struct digest {
    uint64_t seed;
    double sum;
};

static inline struct digest digest_begin(void)
{
    return (struct digest){ .seed = UINT64_C(271828183) };
}

// The next value, in an order that stays the same. What is not a number makes the sum one, too.
static inline void digest_add(struct digest *digest, double value)
{
    digest->sum += (random_next(&digest->seed) - 0.5) * value;
}

#endif
