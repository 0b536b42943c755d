// The pseudorandom numbers of the NAS parallel benchmarks: x(k+1) = a x(k) mod 2^46, and the
// uniform number r(k) = x(k) / 2^46 in (0, 1).
#ifndef KERNELS_RANDOM_H
#define KERNELS_RANDOM_H

#include <stdint.h>

#define RANDOM_A UINT64_C(1220703125) // 5^13, the multiplier of every benchmark
#define RANDOM_MASK ((UINT64_C(1) << 46) - 1)

// a x mod 2^46. 2^46 divides 2^64, so that the product may wrap.
static inline uint64_t random_times(uint64_t a, uint64_t x)
{
    return (a * x) & RANDOM_MASK;
}

// x as a number in (0, 1): exact, since 46 bits fit a double.
static inline double random_unit(uint64_t x)
{
    return (double)(int64_t)x * 0x1p-46;
}

// Steps the seed, returns the new number.
static inline double random_next(uint64_t *seed)
{
    *seed = random_times(RANDOM_A, *seed);
    return random_unit(*seed);
}

// a^n mod 2^46: `random_times(random_power(RANDOM_A, n), seed)` is the seed after n steps.
uint64_t random_power(uint64_t a, uint64_t n);

// The seed after n steps.
static inline uint64_t random_skip(uint64_t seed, uint64_t n)
{
    return random_times(random_power(RANDOM_A, n), seed);
}

#endif
