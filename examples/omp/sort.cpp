/* A merge sort and a histogram by tasks, as divide-and-conquer codes do it.
 *
 * What it stands for: task-parallel C++ programs. One region for each round; in it one thread starts a tree of tasks
 * (a range is split until it is small, the halves are sorted by tasks, a taskwait joins them, and large merges are
 * split into tasks again), then a taskloop counts the values with a reduction that the program declares itself, and a
 * chain of tasks with dependences folds the counts. Some tasks throw and catch an exception inside, as C++ code does.
 *
 * Checked: the values of each round come from a counter-based generator, so the sorted sequence is known to be a
 * permutation by its sum and its sum of squares, and to be sorted by one pass; the histogram is compared with a serial
 * one; `fingerprint` covers all rounds and is the same for any number of threads.
 *
 *   sort [--size VALUES] [--work ROUNDS]
 *
 * Prints one line of JSON. Exit code: 0 right, 1 wrong result, 2 wrong arguments or no memory.
 * Build: g++ -O2 -fopenmp sort.cpp -o sort
 */
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <omp.h>
#include <stdexcept>
#include <vector>

namespace {

/* Ranges below this are sorted, and pairs of runs below it merged, by one task. */
constexpr std::size_t grain = 2048;
constexpr std::size_t buckets = 64;

using Values = std::vector<std::uint32_t>;
using Iterator = Values::iterator;

struct Histogram {
    std::array<std::uint64_t, buckets> counts{};

    Histogram &operator+=(const Histogram &other) {
        for (std::size_t bucket = 0; bucket < buckets; bucket++)
            counts[bucket] += other.counts[bucket];
        return *this;
    }
};

#pragma omp declare reduction(add : Histogram : omp_out += omp_in) initializer(omp_priv = Histogram())

/* A counter-based generator: value i of a round does not depend on the thread that makes it. */
std::uint32_t random_value(std::uint64_t round, std::uint64_t i) {
    std::uint64_t x = (round << 40) ^ (i + 1) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::uint32_t>(x >> 32);
}

/* Merges two sorted runs into `out`; large ones by two tasks that split at the middle of the longer run. */
void merge(Iterator a, Iterator a_end, Iterator b, Iterator b_end, Iterator out) {
    if (static_cast<std::size_t>((a_end - a) + (b_end - b)) <= grain) {
        std::merge(a, a_end, b, b_end, out);
        return;
    }
    if (a_end - a < b_end - b) {
        std::swap(a, b);
        std::swap(a_end, b_end);
    }
    Iterator a_middle = a + (a_end - a) / 2;
    Iterator b_middle = std::lower_bound(b, b_end, *a_middle);
    Iterator out_middle = out + (a_middle - a) + (b_middle - b);
#pragma omp task default(none) firstprivate(a, a_middle, b, b_middle, out)
    merge(a, a_middle, b, b_middle, out);
#pragma omp task default(none) firstprivate(a_middle, a_end, b_middle, b_end, out_middle)
    merge(a_middle, a_end, b_middle, b_end, out_middle);
#pragma omp taskwait
}

/* Sorts begin..end. The result stands in `values` or, when `to_spare`, in `spare`. */
void sort(Iterator begin, Iterator end, Iterator spare, bool to_spare) {
    std::size_t count = static_cast<std::size_t>(end - begin);
    if (count <= grain) {
        std::sort(begin, end);
        if (to_spare)
            std::copy(begin, end, spare);
        return;
    }
    Iterator middle = begin + static_cast<std::ptrdiff_t>(count / 2);
    Iterator spare_middle = spare + (middle - begin), spare_end = spare + (end - begin);
#pragma omp task default(none) firstprivate(begin, middle, spare, to_spare)
    sort(begin, middle, spare, !to_spare);
#pragma omp task default(none) firstprivate(middle, end, spare_middle, to_spare)
    sort(middle, end, spare_middle, !to_spare);
#pragma omp taskwait
    if (to_spare)
        merge(begin, middle, middle, end, spare);
    else
        merge(spare, spare_middle, spare_middle, spare_end, begin);
}

/* Every value has a bucket: the exception stands for the rare path of real code, thrown and caught inside a task. */
std::size_t bucket_of(std::uint32_t value) {
    try {
        if (value % 8191 == 0)
            throw std::out_of_range("a rare value");
    } catch (const std::out_of_range &) {
        return 0;
    }
    return value >> 26;
}

struct Round {
    std::uint64_t print = 0;
    bool correct = false;
};

Round run_round(std::uint64_t round, Values &values, Values &spare) {
    std::size_t count = values.size();
    std::uint64_t sum = 0, squares = 0, sum_after = 0, squares_after = 0, folded = 0;
    Histogram histogram;
    bool sorted = true;
#pragma omp parallel default(none) shared(values, spare, histogram, folded, sum, squares, count, round)
    {
#pragma omp for reduction(+ : sum, squares)
        for (std::size_t i = 0; i < count; i++) {
            std::uint32_t value = random_value(round, i);
            values[i] = value;
            sum += value;
            squares += std::uint64_t{value} * value;
        }
#pragma omp single
        {
            sort(values.begin(), values.end(), spare.begin(), false);
#pragma omp taskloop grainsize(grain) reduction(add : histogram) default(none) shared(values, count)
            for (std::size_t i = 0; i < count; i++)
                histogram.counts[bucket_of(values[i])]++;
            /* A chain: each task needs what the one before wrote. */
            for (std::size_t bucket = 0; bucket < buckets; bucket++) {
#pragma omp task default(none) firstprivate(bucket) shared(histogram, folded) depend(inout : folded)
                folded = folded * 31 + histogram.counts[bucket];
            }
#pragma omp taskwait
        }
    }
    Histogram serial;
    for (std::size_t i = 0; i < count; i++) {
        sum_after += values[i];
        squares_after += std::uint64_t{values[i]} * values[i];
        sorted = sorted && (i == 0 || values[i - 1] <= values[i]);
        serial.counts[bucket_of(values[i])]++;
    }
    Round result;
    result.correct = sorted && sum == sum_after && squares == squares_after && serial.counts == histogram.counts;
    result.print = folded * 31 + values[count / 2];
    return result;
}

long argument(const char *name, const char *text, long least, long most) {
    char *end = nullptr;
    errno = 0;
    long value = text ? std::strtol(text, &end, 10) : 0;
    if (text == nullptr || end == text || *end != '\0' || errno != 0 || value < least || value > most) {
        std::fprintf(stderr, "sort: %s wants a whole number from %ld to %ld, not '%s'\n", name, least, most,
                     text ? text : "nothing");
        std::exit(2);
    }
    return value;
}

} // namespace

int main(int argc, char **argv) {
    long size = 400000, rounds = 60;
    for (int i = 1; i < argc; i += 2) {
        if (std::strcmp(argv[i], "--size") == 0)
            size = argument(argv[i], argv[i + 1], 1, 1000000000);
        else if (std::strcmp(argv[i], "--work") == 0)
            rounds = argument(argv[i], argv[i + 1], 1, 1000000000);
        else {
            std::fprintf(stderr, "sort: unknown argument '%s'; usage: sort [--size VALUES] [--work ROUNDS]\n", argv[i]);
            return 2;
        }
    }
    try {
        Values values(static_cast<std::size_t>(size)), spare(static_cast<std::size_t>(size));
        std::uint64_t fingerprint = 0;
        bool correct = true;
        double start = omp_get_wtime();
        for (long round = 0; round < rounds; round++) {
            Round result = run_round(static_cast<std::uint64_t>(round), values, spare);
            fingerprint = fingerprint * 31 + result.print;
            correct = correct && result.correct;
        }
        std::printf("{\"program\":\"sort\",\"seconds\":%.6f,\"size\":%ld,\"work\":%ld,\"threads\":%d,\"regions\":%ld,"
                    "\"fingerprint\":\"%016llx\",\"correct\":%s}\n",
                    omp_get_wtime() - start, size, rounds, omp_get_max_threads(), rounds,
                    static_cast<unsigned long long>(fingerprint), correct ? "true" : "false");
        return correct ? 0 : 1;
    } catch (const std::bad_alloc &) {
        std::fprintf(stderr, "sort: no memory for 2 x %ld values; try a smaller --size\n", size);
        return 2;
    }
}
