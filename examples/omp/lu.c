/* A pipelined SSOR sweep, as LU solvers do it: threads wait for each other by spinning in user code.
 *
 * What it stands for: wavefront codes (the LU and SSOR solvers of the usual suites). One parallel region a time
 * step. In it the rows of the grid are dealt out by thread number, and a lower sweep goes up through the planes,
 * an upper sweep down: a thread may do its rows of a plane when its neighbour has done the rows beside them. That
 * order is kept by one flag per thread, on which the neighbour spins: plain user code, invisible to the OpenMP
 * runtime. A system that stops the neighbour's thread makes this one burn a whole time slice.
 *
 * The grid has EDGE x EDGE cells in each of EDGE / 3 planes, and five coupled unknowns a cell. Each step:
 * right-hand side from the field and a source that changes with the step (so that the field never comes to rest),
 * lower sweep, upper sweep, update.
 *
 * Checked: the sweeps are exact recurrences, so every value has the same bits for any number of threads. The sum
 * of the bit patterns of all values that were written in a step is the step's fingerprint. The first and the last
 * CHECKED steps are repeated by a serial sweep from a saved field and must have the same fingerprints and the same
 * final field, all of it finite; `fingerprint` covers all steps, so that whole runs with different numbers of
 * threads can be compared.
 *
 *   lu [--size EDGE] [--work STEPS]
 *
 * Prints one line of JSON. Exit code: 0 right, 1 wrong result, 2 wrong arguments or no memory.
 * Build: gcc -O2 -ffp-contract=off -fopenmp lu.c -o lu -lm
 */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OMEGA 1.2
#define CHECKED 3
#define LINE 64

enum { PARTS = 5 }; /* unknowns a cell */

struct grid {
    int edge, planes; /* inner cells: edge x edge in each plane */
    size_t row;       /* cells in a row, borders counted */
    size_t plane;     /* cells in a plane, borders counted */
    size_t bytes;     /* of a field */
    double (*field)[PARTS], (*change)[PARTS];
};

/* How a cell's unknowns feel those of its neighbour in each direction: the identity and a slight turn. */
static const double coupling[3][PARTS][PARTS] = {
    {{1, .02, 0, -.01, .03}, {-.02, 1, .01, 0, 0}, {0, -.01, 1, .02, 0}, {.01, 0, -.02, 1, .01}, {-.03, 0, 0, -.01, 1}},
    {{1, 0, -.02, .01, 0}, {0, 1, .03, -.01, .02}, {.02, -.03, 1, 0, 0}, {-.01, .01, 0, 1, -.02}, {0, -.02, 0, .02, 1}},
    {{1, .01, 0, 0, -.02}, {-.01, 1, 0, .02, 0}, {0, 0, 1, -.03, .01}, {0, -.02, .03, 1, 0}, {.02, 0, -.01, 0, 1}},
};

/* One flag per thread and side, each in a cache line of its own. 1 = "my rows of this plane are done"; the
 * neighbour puts it back to 0, and until then the next plane is not announced. */
struct flag {
    int done;
    char rest[LINE - sizeof(int)];
};

static void *allocate(size_t count, size_t size)
{
    void *memory = NULL;
    size_t bytes = (count * size + LINE - 1) / LINE * LINE;
    if (count > SIZE_MAX / 2 / size || (memory = aligned_alloc(LINE, bytes)) == NULL) {
        fprintf(stderr, "lu: no memory for %zu values of %zu bytes\n", count, size);
        exit(2);
    }
    memset(memory, 0, bytes);
    return memory;
}

static inline uint64_t bits(double value)
{
    uint64_t pattern;
    memcpy(&pattern, &value, sizeof pattern);
    return pattern;
}

static inline size_t at(const struct grid *g, int i, int j, int k)
{
    return (size_t)k * g->plane + (size_t)j * g->row + (size_t)i;
}

/* The four parts of a step, on rows from..to-1 of plane k. `noinline`: the parallel and the serial run must use
 * the very same instructions, for they are compared bit by bit. */
__attribute__((noinline)) static void right_hand_side(struct grid *g, int k, int from, int to, long step)
{
    for (int j = from; j < to; j++) {
        double source = (double)((step * 7 + j * 3 + k * 5) % 17) - 8.0;
        for (int i = 1; i <= g->edge; i++) {
            size_t c = at(g, i, j, k);
            const double(*u)[PARTS] = g->field + c;
            for (int m = 0; m < PARTS; m++)
                g->change[c][m] = source + 0.01 * i - 6.5 * u[0][m] + u[-1][m] + u[1][m] + (u - g->row)[0][m] +
                                  u[g->row][m] + (u - g->plane)[0][m] + u[g->plane][m];
        }
    }
}

static inline double felt(int m, const double *x, const double *y, const double *z)
{
    double sum = 0.0;
    for (int n = 0; n < PARTS; n++)
        sum += coupling[0][m][n] * x[n] + coupling[1][m][n] * y[n] + coupling[2][m][n] * z[n];
    return sum;
}

__attribute__((noinline)) static uint64_t lower(struct grid *g, int k, int from, int to)
{
    uint64_t print = 0;
    for (int j = from; j < to; j++)
        for (int i = 1; i <= g->edge; i++) {
            double(*d)[PARTS] = g->change + at(g, i, j, k);
            for (int m = 0; m < PARTS; m++) {
                d[0][m] = (d[0][m] + OMEGA * felt(m, d[-1], (d - g->row)[0], (d - g->plane)[0])) / 6.5;
                print += bits(d[0][m]);
            }
        }
    return print;
}

__attribute__((noinline)) static uint64_t upper(struct grid *g, int k, int from, int to)
{
    uint64_t print = 0;
    for (int j = to - 1; j >= from; j--)
        for (int i = g->edge; i >= 1; i--) {
            double(*d)[PARTS] = g->change + at(g, i, j, k);
            for (int m = 0; m < PARTS; m++) {
                d[0][m] += OMEGA * felt(m, d[1], d[g->row], d[g->plane]) / 6.5;
                print += bits(d[0][m]) * 3;
            }
        }
    return print;
}

__attribute__((noinline)) static uint64_t update(struct grid *g, int k, int from, int to)
{
    uint64_t print = 0;
    for (int j = from; j < to; j++)
        for (int i = 1; i <= g->edge; i++) {
            size_t c = at(g, i, j, k);
            for (int m = 0; m < PARTS; m++) {
                g->field[c][m] += OMEGA * (2.0 - OMEGA) * g->change[c][m];
                print += bits(g->field[c][m]) * 5;
            }
        }
    return print;
}

/* Waits until the neighbour has done its rows of this plane, and takes its flag down. */
static void await(struct flag *neighbour)
{
    int done = 0;
    while (!done) {
#pragma omp atomic read
        done = neighbour->done;
    }
#pragma omp flush
#pragma omp atomic write
    neighbour->done = 0;
}

/* Says that this thread's rows of the plane are done, once the neighbour has taken note of the plane before. */
static void announce(struct flag *own)
{
#pragma omp flush
    int pending = 1;
    while (pending) {
#pragma omp atomic read
        pending = own->done;
    }
#pragma omp atomic write
    own->done = 1;
}

/* One time step as one parallel region. `flags` has room for two flags per thread that a team can have. */
static uint64_t step_parallel(struct grid *g, long step, struct flag *flags)
{
    uint64_t print = 0;
#pragma omp parallel reduction(+ : print)
    {
        /* The team may have another size in each region: the deal is made anew from what this one has. */
        int team = omp_get_num_threads(), me = omp_get_thread_num();
        int from = 1 + (int)((long)g->edge * me / team), to = 1 + (int)((long)g->edge * (me + 1) / team);
        struct flag *rising = flags, *falling = flags + team;
        rising[me].done = falling[me].done = 0;

        for (int k = 1; k <= g->planes; k++)
            right_hand_side(g, k, from, to, step);
#pragma omp barrier
        for (int k = 1; k <= g->planes; k++) {
            if (me > 0)
                await(&rising[me - 1]);
            print += lower(g, k, from, to);
            if (me < team - 1)
                announce(&rising[me]);
        }
        for (int k = g->planes; k >= 1; k--) {
            if (me < team - 1)
                await(&falling[me + 1]);
            print += upper(g, k, from, to);
            if (me > 0)
                announce(&falling[me]);
        }
#pragma omp barrier
        for (int k = 1; k <= g->planes; k++)
            print += update(g, k, from, to);
    }
    return print;
}

static uint64_t step_serial(struct grid *g, long step)
{
    uint64_t print = 0;
    int from = 1, to = g->edge + 1;
    for (int k = 1; k <= g->planes; k++)
        right_hand_side(g, k, from, to, step);
    for (int k = 1; k <= g->planes; k++)
        print += lower(g, k, from, to);
    for (int k = g->planes; k >= 1; k--)
        print += upper(g, k, from, to);
    for (int k = 1; k <= g->planes; k++)
        print += update(g, k, from, to);
    return print;
}

/* Repeats steps first..last-1 serially from `saved`: the same fingerprints, and the same field where `expected` is
 * given? */
static int repeat(struct grid *g, const void *saved, const void *expected, long first, long last,
                  const uint64_t *prints)
{
    int right = 1;
    memcpy(g->field, saved, g->bytes);
    memset(g->change, 0, g->bytes);
    for (long step = first; step < last; step++)
        right &= step_serial(g, step) == prints[step - first];
    return right && (expected == NULL || memcmp(g->field, expected, g->bytes) == 0);
}

static int all_finite(const struct grid *g)
{
    for (size_t c = 0; c < g->bytes / sizeof g->field[0]; c++)
        for (int m = 0; m < PARTS; m++)
            if (!isfinite(g->field[c][m]))
                return 0;
    return 1;
}

static long argument(const char *name, const char *text, long least, long most)
{
    char *end = NULL;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || value < least || value > most) {
        fprintf(stderr, "lu: %s wants a whole number from %ld to %ld, not '%s'\n", name, least, most,
                text ? text : "nothing");
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    long edge = 96, steps = 320;
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--size") == 0)
            edge = argument(argv[i], argv[i + 1], 1, 2000);
        else if (strcmp(argv[i], "--work") == 0)
            steps = argument(argv[i], argv[i + 1], 1, 1000000000);
        else {
            fprintf(stderr, "lu: unknown argument '%s'; usage: lu [--size EDGE] [--work STEPS]\n", argv[i]);
            return 2;
        }
    }

    struct grid g = {.edge = (int)edge, .planes = (int)(edge + 2) / 3, .row = (size_t)edge + 2};
    g.plane = g.row * g.row;
    size_t cells = g.plane * ((size_t)g.planes + 2);
    g.bytes = cells * sizeof g.field[0];
    g.field = allocate(cells, sizeof g.field[0]);
    g.change = allocate(cells, sizeof g.change[0]);
    void *begin = allocate(cells, sizeof g.field[0]), *late = allocate(cells, sizeof g.field[0]);
    void *end = allocate(cells, sizeof g.field[0]);
    for (int k = 1; k <= g.planes; k++)
        for (int j = 1; j <= edge; j++)
            for (int i = 1; i <= edge; i++)
                for (int m = 0; m < PARTS; m++)
                    g.field[at(&g, i, j, k)][m] = (double)((i * 5 + j * 11 + k * 17 + m * 3) % 29) * 0.125;
    memcpy(begin, g.field, g.bytes);

    /* No team is larger than what the runtime says now, for nothing here raises it. */
    int most = omp_get_max_threads();
    struct flag *flags = allocate(2 * (size_t)most, sizeof(struct flag));
    uint64_t first_prints[CHECKED] = {0}, last_prints[CHECKED] = {0}, fingerprint = 0;
    long checked = steps < CHECKED ? steps : CHECKED;

    double start = omp_get_wtime();
    for (long step = 0; step < steps; step++) {
        if (step == steps - checked)
            memcpy(late, g.field, g.bytes);
        uint64_t print = step_parallel(&g, step, flags);
        fingerprint = fingerprint * 31 + print;
        if (step < checked)
            first_prints[step] = print;
        if (step >= steps - checked)
            last_prints[step - (steps - checked)] = print;
    }
    double seconds = omp_get_wtime() - start;
    memcpy(end, g.field, g.bytes);

    int correct = all_finite(&g) & repeat(&g, begin, NULL, 0, checked, first_prints) &
                  repeat(&g, late, end, steps - checked, steps, last_prints);
    printf("{\"program\":\"lu\",\"seconds\":%.6f,\"size\":%ld,\"work\":%ld,\"threads\":%d,\"regions\":%ld,"
           "\"fingerprint\":\"%016llx\",\"correct\":%s}\n",
           seconds, edge, steps, most, steps, (unsigned long long)fingerprint, correct ? "true" : "false");
    free(g.field), free(g.change), free(begin), free(late), free(end), free(flags);
    return correct ? 0 : 1;
}
