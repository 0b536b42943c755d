/* Conjugate gradients on a sparse symmetric positive definite matrix: many short parallel regions.
 *
 * What it stands for: iterative solvers. Three parallel loops an iteration, each a region of its own (fork, a
 * few dozen microseconds of work, join), two of them with a reduction; default-sized teams, static schedules,
 * nothing that a compiler does not generate for any program. A runtime that loses time at forks and joins, or that
 * waits by spinning for a thread that has no processor, shows it here.
 *
 * Matrix: row i is coupled with rows i +- each distance of `distance`, by a negative value that both rows
 * compute alike (so it is symmetric); the diagonal is the sum of their magnitudes plus SHIFT, so it is strictly
 * diagonally dominant and therefore positive definite, and SHIFT sets how many iterations a solve takes.
 * Each solve has its own known solution: the right-hand side is made from it.
 *
 * Checked, serially, after each solve: the true residual b - A x, and x against the known solution.
 *
 *   cg [--size ROWS] [--work SOLVES]
 *
 * Prints one line of JSON. Exit code: 0 right, 1 wrong result, 2 wrong arguments or no memory.
 * Build: gcc -O2 -fopenmp cg.c -o cg -lm
 */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT 0.01
#define TOLERANCE 1e-11 /* of the recurrence residual, relative to the right-hand side */
#define MAX_RESIDUAL 1e-10
#define MAX_ERROR 1e-8
#define MAX_ITERATIONS 5000

static const long distance[] = {1, 3, 101, 211, 1511};
enum { DISTANCES = sizeof distance / sizeof distance[0] };

struct matrix {
    long rows;
    long *start; /* rows + 1: where each row begins in `column` and `value` */
    int *column;
    double *value;
};

struct outcome {
    long regions, iterations;
    double residual, error; /* the worst of all solves */
};

/* A number in [0, 1) that depends on both arguments and on nothing else. */
static double hashed(uint64_t a, uint64_t b)
{
    uint64_t h = a * 0x9e3779b97f4a7c15u ^ (b + 0x632be59bd9b4e019u) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 29;
    return (double)(h >> 11) * 0x1p-53;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fprintf(stderr, "cg: no memory for %zu values of %zu bytes\n", count, size);
        exit(2);
    }
    return memory;
}

static struct matrix build_matrix(long rows)
{
    size_t most = (size_t)rows * (2 * DISTANCES + 1);
    struct matrix a = {rows, allocate((size_t)rows + 1, sizeof(long)), allocate(most, sizeof(int)),
                       allocate(most, sizeof(double))};
    long used = 0;
    for (long i = 0; i < rows; i++) {
        double sum = SHIFT;
        long diagonal = used++;
        for (int side = -1; side <= 1; side += 2) {
            for (int d = 0; d < DISTANCES; d++) {
                long j = i + side * distance[d];
                if (j < 0 || j >= rows)
                    continue;
                double weight = 0.1 + hashed((uint64_t)(i < j ? i : j), (uint64_t)(i < j ? j : i));
                a.column[used] = (int)j;
                a.value[used] = -weight;
                used++;
                sum += weight;
            }
        }
        a.column[diagonal] = (int)i;
        a.value[diagonal] = sum;
        a.start[i + 1] = used;
    }
    return a;
}

static inline double row_times(const struct matrix *a, const double *x, long i)
{
    double sum = 0.0;
    for (long k = a->start[i]; k < a->start[i + 1]; k++)
        sum += a->value[k] * x[a->column[k]];
    return sum;
}

/* Solves A x = b from x = 0. Returns the iterations, or -1 when MAX_ITERATIONS were not enough. */
static long solve(const struct matrix *a, const double *b, double *x, double *r, double *p, double *q, long *regions)
{
    long rows = a->rows;
    double rr = 0.0;
#pragma omp parallel for reduction(+ : rr)
    for (long i = 0; i < rows; i++) {
        x[i] = 0.0;
        r[i] = p[i] = b[i];
        rr += b[i] * b[i];
    }
    *regions += 1;
    double target = TOLERANCE * TOLERANCE * rr;

    for (long iteration = 1; iteration <= MAX_ITERATIONS; iteration++) {
        double pq = 0.0;
#pragma omp parallel for reduction(+ : pq)
        for (long i = 0; i < rows; i++) {
            q[i] = row_times(a, p, i);
            pq += p[i] * q[i];
        }

        double alpha = rr / pq, rr_new = 0.0;
#pragma omp parallel for reduction(+ : rr_new)
        for (long i = 0; i < rows; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            rr_new += r[i] * r[i];
        }
        *regions += 2;
        if (rr_new <= target)
            return iteration;

        double beta = rr_new / rr;
        rr = rr_new;
#pragma omp parallel for
        for (long i = 0; i < rows; i++)
            p[i] = r[i] + beta * p[i];
        *regions += 1;
    }
    return -1;
}

static struct outcome run(const struct matrix *a, long solves)
{
    size_t rows = (size_t)a->rows;
    double *known = allocate(rows, sizeof(double)), *b = allocate(rows, sizeof(double));
    double *x = allocate(rows, sizeof(double)), *r = allocate(rows, sizeof(double));
    double *p = allocate(rows, sizeof(double)), *q = allocate(rows, sizeof(double));
    struct outcome outcome = {0, 0, 0.0, 0.0};

    for (long s = 0; s < solves; s++) {
        for (size_t i = 0; i < rows; i++)
            known[i] = 2.0 * hashed(i, (uint64_t)s + 0x10000000u) - 1.0;
#pragma omp parallel for
        for (long i = 0; i < a->rows; i++)
            b[i] = row_times(a, known, i);
        outcome.regions++;

        long iterations = solve(a, b, x, r, p, q, &outcome.regions);
        if (iterations < 0) {
            outcome.residual = outcome.error = INFINITY;
            break;
        }
        outcome.iterations += iterations;

        double bb = 0.0, rr = 0.0, error = 0.0;
        for (size_t i = 0; i < rows; i++) {
            double difference = b[i] - row_times(a, x, (long)i);
            rr += difference * difference;
            bb += b[i] * b[i];
            error = fmax(error, fabs(x[i] - known[i]));
        }
        /* Written so that a NaN counts as wrong, which fmax alone would swallow. */
        double residual = sqrt(rr / bb);
        if (!(residual <= outcome.residual))
            outcome.residual = residual;
        if (!(error <= outcome.error))
            outcome.error = error;
    }
    free(known), free(b), free(x), free(r), free(p), free(q);
    return outcome;
}

static long argument(const char *name, const char *text, long least, long most)
{
    char *end = NULL;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || value < least || value > most) {
        fprintf(stderr, "cg: %s wants a whole number from %ld to %ld, not '%s'\n", name, least, most,
                text ? text : "nothing");
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    long rows = 30000, solves = 200;
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--size") == 0)
            rows = argument(argv[i], argv[i + 1], 1, 50000000);
        else if (strcmp(argv[i], "--work") == 0)
            solves = argument(argv[i], argv[i + 1], 1, 1000000000);
        else {
            fprintf(stderr, "cg: unknown argument '%s'; usage: cg [--size ROWS] [--work SOLVES]\n", argv[i]);
            return 2;
        }
    }

    struct matrix a = build_matrix(rows);
    double begin = omp_get_wtime();
    struct outcome outcome = run(&a, solves);
    double seconds = omp_get_wtime() - begin;
    int correct = outcome.residual <= MAX_RESIDUAL && outcome.error <= MAX_ERROR;
    printf("{\"program\":\"cg\",\"seconds\":%.6f,\"size\":%ld,\"work\":%ld,\"threads\":%d,\"regions\":%ld,"
           "\"iterations\":%ld,\"residual\":\"%.3e\",\"error\":\"%.3e\",\"correct\":%s}\n",
           seconds, rows, solves, omp_get_max_threads(), outcome.regions, outcome.iterations, outcome.residual,
           outcome.error, correct ? "true" : "false");
    free(a.start), free(a.column), free(a.value);
    return correct ? 0 : 1;
}
