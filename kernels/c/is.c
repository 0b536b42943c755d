// IS of the NAS parallel benchmarks: ranks ten times a sequence of integer keys, two keys changed
// before each ranking.
//
// A key's rank is the number of smaller keys. Keys are first parted into buckets, so that the
// counters of one bucket stay in the first cache.

#include "common/options.h"
#include "common/random.h"
#include "common/report.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(314159265)
#define ITERATIONS 10
#define TESTS 5
#define BUCKETS_LOG2 10
#define BUCKETS (1 << BUCKETS_LOG2)

struct class {
    int log2_keys, log2_range;
    int test_index[TESTS], test_rank[TESTS];
    // How the rank of a test key moves from one iteration to the next: up by `iteration + up` for
    // the first `rising` tests, the others down by `iteration + down`. `tests` tells which rise.
    int up, down;
    int rising[TESTS];
};

static const struct class classes[4] = {
    { 16, 11, { 48427, 17148, 23627, 62548, 4431 }, { 0, 18, 346, 64917, 65463 }, 0, 0,
      { 1, 1, 1, 0, 0 } },
    { 20, 16, { 357773, 934767, 875723, 898999, 404505 },
      { 1249, 11698, 1039987, 1043896, 1048018 }, -2, 0, { 1, 1, 0, 0, 0 } },
    { 23, 19, { 2112377, 662041, 5336171, 3642833, 4250760 },
      { 104, 17523, 123928, 8288932, 8388264 }, -1, -1, { 1, 1, 1, 0, 0 } },
    { 25, 21, { 41869, 812306, 5102857, 18232239, 26860214 },
      { 33422937, 10244, 59149, 33135281, 99 }, 0, 0, { 0, 1, 1, 0, 1 } },
};

struct work {
    long keys, range;
    int shift;      // a key's bucket is key >> shift
    int chunks;     // parts of the sequence, one a thread
    int32_t *key;   // the sequence
    int32_t *parted; // the keys, bucket by bucket
    int32_t *rank;  // of each value: how many keys are smaller
    int32_t *place; // of each chunk and bucket: counts, then where the next key goes
    int32_t *start; // of each bucket in `parted`
};

// Key i is the sum of four random numbers, scaled to the range.
static void make_keys(const struct work *w)
{
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < w->chunks; chunk++) {
        long from = w->keys * chunk / w->chunks, to = w->keys * (chunk + 1) / w->chunks;
        uint64_t seed = random_skip(SEED, 4 * (uint64_t)from);
        for (long i = from; i < to; i++) {
            double sum = random_next(&seed);
            sum += random_next(&seed);
            sum += random_next(&seed);
            sum += random_next(&seed);
            w->key[i] = (int32_t)((double)(w->range / 4) * sum);
        }
    }
}

static void rank_keys(const struct work *w)
{
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < w->chunks; chunk++) {
        long from = w->keys * chunk / w->chunks, to = w->keys * (chunk + 1) / w->chunks;
        int32_t *count = w->place + (size_t)chunk * BUCKETS;
        memset(count, 0, BUCKETS * sizeof count[0]);
        for (long i = from; i < to; i++)
            count[w->key[i] >> w->shift]++;
    }
    int32_t next = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        w->start[bucket] = next;
        for (int chunk = 0; chunk < w->chunks; chunk++) {
            int32_t *place = &w->place[(size_t)chunk * BUCKETS + (size_t)bucket];
            int32_t count = *place;
            *place = next;
            next += count;
        }
    }
    w->start[BUCKETS] = next;
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < w->chunks; chunk++) {
        long from = w->keys * chunk / w->chunks, to = w->keys * (chunk + 1) / w->chunks;
        int32_t *place = w->place + (size_t)chunk * BUCKETS;
        for (long i = from; i < to; i++)
            w->parted[place[w->key[i] >> w->shift]++] = w->key[i];
    }
    // Buckets in the middle hold the most keys: handed out as threads come.
#pragma omp parallel for schedule(dynamic, 8)
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        int32_t width = 1 << w->shift;
        int32_t *rank = w->rank + (size_t)bucket * (size_t)width;
        memset(rank, 0, (size_t)width * sizeof rank[0]);
        for (int32_t i = w->start[bucket]; i < w->start[bucket + 1]; i++)
            rank[w->parted[i] & (width - 1)]++;
        int32_t smaller = w->start[bucket];
        for (int32_t value = 0; value < width; value++) {
            int32_t count = rank[value];
            rank[value] = smaller;
            smaller += count;
        }
    }
}

// Puts each key where its rank says; how many neighbours are in the wrong order, or how many places
// stayed empty.
static long out_of_order(const struct work *w)
{
    int32_t *next = report_memory("the sorted keys", (size_t)w->range, sizeof(int32_t));
    memcpy(next, w->rank, (size_t)w->range * sizeof(int32_t));
    memset(w->parted, 0xff, (size_t)w->keys * sizeof(int32_t));
    long wrong = 0;
    for (long i = 0; i < w->keys; i++) {
        int32_t place = next[w->key[i]]++;
        if (place >= 0 && place < w->keys)
            w->parted[place] = w->key[i];
    }
    for (long i = 0; i < w->keys; i++)
        wrong += w->parted[i] < (i == 0 ? 0 : w->parted[i - 1]);
    free(next);
    return wrong;
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct class *class = &classes[options_row(&options)];
    struct work w = { .keys = 1L << class->log2_keys, .range = 1L << class->log2_range };
    w.shift = class->log2_range - BUCKETS_LOG2;
    struct report report = report_begin("is", &options, ITERATIONS, (double)w.keys * ITERATIONS);
    w.chunks = report.threads;
    w.key = report_memory("the keys", (size_t)w.keys, sizeof(int32_t));
    w.parted = report_memory("the keys", (size_t)w.keys, sizeof(int32_t));
    w.rank = report_memory("the ranks", (size_t)w.range, sizeof(int32_t));
    w.place = report_memory("the buckets", (size_t)w.chunks * BUCKETS, sizeof(int32_t));
    w.start = report_memory("the buckets", BUCKETS + 1, sizeof(int32_t));
    while (report_again(&report)) {
        int32_t test[TESTS], found[ITERATIONS][TESTS];
        make_keys(&w);
        for (int t = 0; t < TESTS; t++)
            test[t] = class->test_index[t];
        rank_keys(&w); // touches all, not timed
        report_start(&report);
        for (int i = 1; i <= ITERATIONS; i++) {
            w.key[i] = i;
            w.key[i + ITERATIONS] = (int32_t)w.range - i;
            // The values at the test places, before they are ranked.
            for (int t = 0; t < TESTS; t++)
                found[i - 1][t] = w.key[test[t]];
            rank_keys(&w);
            for (int t = 0; t < TESTS; t++)
                found[i - 1][t] = w.rank[found[i - 1][t]];
        }
        report_stop(&report);
        for (int i = 1; i <= ITERATIONS; i++)
            for (int t = 0; t < TESTS; t++) {
                int moved = class->rising[t] ? i + class->up : -(i + class->down);
                char name[32];
                snprintf(name, sizeof name, "rank %d in iteration %d", t + 1, i);
                check_equal(&report.checks, name, found[i - 1][t], class->test_rank[t] + moved);
            }
        check_equal(&report.checks, "keys out of order", out_of_order(&w), 0);
    }
    return report_end(&report);
}
