// The checks of one repetition: value, expected value, relative error, and whether it passed.
#ifndef KERNELS_VERIFY_H
#define KERNELS_VERIFY_H

#include <stdbool.h>
#include <stddef.h>

struct check {
    char name[32];
    double value, expected, error, tolerance;
    bool passed;
};

struct checks {
    struct check *list;
    size_t count, room;
};

// |value - expected| / |expected| must be at most `tolerance` (the difference itself where 0 is
// expected). What is not a number fails. Adds the check, returns whether it passed.
bool check_close(struct checks *checks, const char *name, double value, double expected,
                 double tolerance);

// The value must be the expected one. Both below 2^53.
bool check_equal(struct checks *checks, const char *name, long long value, long long expected);

// The larger one of two differences, for a search of the largest; what is not a number is larger
// than all others.
static inline double larger_difference(double worst, double difference)
{
    return difference > worst || difference != difference ? difference : worst;
}

// True when there is at least one check and every one passed.
bool checks_passed(const struct checks *checks);

// Forgets the checks, for the next repetition.
void checks_clear(struct checks *checks);

#endif
