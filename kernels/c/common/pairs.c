#include "pairs.h"

#include "random.h"

#include <math.h>
#include <stdio.h>

#define SEED UINT64_C(271828183)
#define BATCH (1 << PAIRS_BATCH_LOG2)
// Pairs at a time: what they need stays in the first cache.
#define STRIP 256
// Independent sequences, since each step of one waits for a multiplication.
#define LANES 4

struct class {
    int log2_pairs;
    double sum_x, sum_y;
    long long rings[6]; // all zero: not published
};

static const struct class classes[4] = {
    { 24, -3.247834652034740e+3, -6.958407078382297e+3,
      { 6140517, 5865300, 1100361, 68546, 1648, 17 } },
    { 25, -2.863319731645753e+3, -6.320053679109499e+3, { 0 } },
    { 28, -4.295875165629892e+3, -1.580732573678431e+4,
      { 98257395, 93827014, 17611549, 1110028, 26536, 245 } },
    { 30, 4.033815542441498e+4, -2.660669192809235e+4, { 0 } },
};

int pairs_log2(const struct options *options)
{
    return classes[options_row(options)].log2_pairs;
}

void pairs_batch(struct pairs *sums, long long batch)
{
    double x[STRIP], y[STRIP], t[STRIP];
    // Lane i makes pairs i, i + LANES, ...: both numbers of a pair, then 2 LANES steps at once.
    uint64_t jump = random_power(RANDOM_A, 2 * LANES), lane[LANES];
    uint64_t seed = random_skip(SEED, 2 * (uint64_t)BATCH * (uint64_t)batch);
    for (int i = 0; i < LANES; i++) {
        seed = random_times(RANDOM_A, seed);
        lane[i] = seed;
        seed = random_times(RANDOM_A, seed);
    }
    for (int strip = 0; strip < BATCH; strip += STRIP) {
        int accepted = 0;
        for (int pair = 0; pair < STRIP; pair += LANES) {
            for (int i = 0; i < LANES; i++) {
                double a = 2 * random_unit(lane[i]) - 1;
                double b = 2 * random_unit(random_times(RANDOM_A, lane[i])) - 1;
                lane[i] = random_times(jump, lane[i]);
                double square = a * a + b * b;
                // Always written; kept only where the point lies in the circle.
                x[accepted] = a;
                y[accepted] = b;
                t[accepted] = square;
                accepted += square <= 1;
            }
        }
        for (int i = 0; i < accepted; i++)
            t[i] = sqrt(-2 * log(t[i]) / t[i]);
        for (int i = 0; i < accepted; i++) {
            double gx = x[i] * t[i], gy = y[i] * t[i];
            sums->rings[(int)fmax(fabs(gx), fabs(gy))]++;
            sums->sum_x += gx;
            sums->sum_y += gy;
        }
    }
}

void pairs_add(struct pairs *sums, const struct pairs *other)
{
    sums->sum_x += other->sum_x;
    sums->sum_y += other->sum_y;
    for (int i = 0; i < PAIRS_RINGS; i++)
        sums->rings[i] += other->rings[i];
}

void pairs_check(struct checks *checks, const struct options *options, const struct pairs *sums)
{
    const struct class *class = &classes[options_row(options)];
    check_close(checks, "sum of X", sums->sum_x, class->sum_x, 1e-8);
    check_close(checks, "sum of Y", sums->sum_y, class->sum_y, 1e-8);
    for (int i = 0; i < 6 && class->rings[0] > 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "ring %d", i);
        check_equal(checks, name, sums->rings[i], class->rings[i]);
    }
}
