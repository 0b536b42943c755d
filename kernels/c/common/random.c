#include "random.h"

uint64_t random_power(uint64_t a, uint64_t n)
{
    uint64_t result = 1;
    for (uint64_t square = a & RANDOM_MASK; n > 0; n >>= 1) {
        if (n & 1)
            result = random_times(result, square);
        square = random_times(square, square);
    }
    return result;
}
