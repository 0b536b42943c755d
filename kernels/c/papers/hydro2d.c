// A code like SPECfp95's hydro2d on two levels of parallelism: four sections, each of which holds
// parallel loops (ICS 1999, section 6.1).
//
// Euler's equations of a gas in two dimensions, in a periodic square, by the two-step scheme of
// Lax, Wendroff and Richtmyer: half a time step to the corners of the cells, then a whole one from
// the flows there. Each half step is a loop over all cells that derives velocities and pressure,
// on all threads, and one section for each conserved quantity: density, two momenta, energy. A
// section's loop runs on the section's own group of threads. With `--levels 1` the sections
// follow each other, each on all threads.
//
// What verifies it: the gas holds a vortex that the wind carries along, an exact solution; the
// distance from it grows with time and falls with the square of a cell's width. The four sums stay
// the same up to rounding. What was left out in one step shows in the quantities' digests, whose
// right values are recorded.
#include "common/digest.h"
#include "common/report.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 10.0
#define WIND_X 1.0
#define WIND_Y 0.5
#define STRENGTH 2.0 // of the vortex
#define GAMMA 1.4
#define COURANT 0.4
#define TOLERANCE 1e-10 // of digests
#define PI 3.14159265358979323846

enum { DENSITY, MOMENTUM_X, MOMENTUM_Y, ENERGY, QUANTITIES };

static const struct class {
    int n, steps;
    double digests[QUANTITIES]; // after the last step
} classes[4] = {
    { 64, 100, { 23.4703784591961, 24.3514345520035, 11.8335515774763, 74.4036611921642 } },
    { 200, 400, { 21.3374711565693, 20.3232458136765, 7.52867795024514, 64.0909535197744 } },
    { 400, 800, { -16.531763680907, -7.8134369820278, -6.12488574040577, -43.1330492150396 } },
    { 800, 1600, { -240.521816371778, -226.536849227232, -113.084852566593, -734.086379029879 } },
};

// The quantities at cells or corners, and what the flows need of them. Cells 1..n with a layer of
// copies round them; corner (j, i) lies between cells j, j + 1 and i, i + 1.
struct gas {
    double *quantity[QUANTITIES], *u, *v, *pressure;
};

static struct gas cells, corners;
static int n, groups, members;
static ptrdiff_t row;
static double h, dt;

// The exact solution at a time, in the middle of a cell.
static void exact(int j, int i, double time, double value[QUANTITIES])
{
    double x = (i - 0.5) * h - 0.5 * SIDE - WIND_X * time;
    double y = (j - 0.5) * h - 0.5 * SIDE - WIND_Y * time;
    x -= SIDE * round(x / SIDE);
    y -= SIDE * round(y / SIDE);
    const double turn = STRENGTH / (2 * PI) * exp(0.5 * (1 - x * x - y * y));
    const double u = WIND_X - turn * y, v = WIND_Y + turn * x;
    const double temperature = 1 - (GAMMA - 1) / (2 * GAMMA) * turn * turn;
    const double density = pow(temperature, 1 / (GAMMA - 1));
    value[DENSITY] = density;
    value[MOMENTUM_X] = density * u;
    value[MOMENTUM_Y] = density * v;
    value[ENERGY] = density * temperature / (GAMMA - 1) + 0.5 * density * (u * u + v * v);
}

static void initialise(void)
{
#pragma omp parallel for schedule(static)
    for (int j = 0; j < n + 2; j++)
        for (int i = 0; i < n + 2; i++) {
            double value[QUANTITIES];
            exact(j, i, 0, value);
            for (int q = 0; q < QUANTITIES; q++) {
                cells.quantity[q][j * row + i] = value[q];
                corners.quantity[q][j * row + i] = 0;
            }
        }
}

// Velocities and pressure in rows 0..last, on all threads.
static void derive(struct gas *gas, int last)
{
#pragma omp parallel for schedule(static)
    for (int j = 0; j <= last; j++) {
        const double *restrict density = gas->quantity[DENSITY] + j * row;
        const double *restrict mx = gas->quantity[MOMENTUM_X] + j * row;
        const double *restrict my = gas->quantity[MOMENTUM_Y] + j * row;
        const double *restrict energy = gas->quantity[ENERGY] + j * row;
        double *restrict u = gas->u + j * row, *restrict v = gas->v + j * row;
        double *restrict pressure = gas->pressure + j * row;
        for (int i = 0; i <= last; i++) {
            const double inverse = 1 / density[i];
            u[i] = mx[i] * inverse;
            v[i] = my[i] * inverse;
            pressure[i] = (GAMMA - 1) * (energy[i] - 0.5 * (mx[i] * u[i] + my[i] * v[i]));
        }
    }
}

// The flow of a quantity through a point, in x or in y.
static inline __attribute__((always_inline)) double
flow(int quantity, double value, double along, double pressure, int momentum)
{
    double carried = value * along;
    if (quantity == momentum)
        carried += pressure;
    if (quantity == ENERGY)
        carried += pressure * along;
    return carried;
}

// One row of a half step: at the corner that follows (j, i), or, one back, at the cell before it,
// from the four points round it. `mean`: from their mean (to corners); else from what is there.
static inline __attribute__((always_inline)) void
step_row(const struct gas *from, struct gas *to, int quantity, int j, ptrdiff_t shift, int first,
         double time, bool mean)
{
    const double *restrict q = from->quantity[quantity] + j * row + shift;
    const double *restrict u = from->u + j * row + shift, *restrict v = from->v + j * row + shift;
    const double *restrict p = from->pressure + j * row + shift;
    double *restrict target = to->quantity[quantity] + j * row;
    const double scale = 0.5 * time / h;
    for (int i = first; i <= n; i++) {
        double fx[4], fy[4], sum = 0;
#pragma GCC unroll 4
        for (int corner = 0; corner < 4; corner++) {
            const ptrdiff_t at = i + corner % 2 + corner / 2 * row;
            fx[corner] = flow(quantity, q[at], u[at], p[at], MOMENTUM_X);
            fy[corner] = flow(quantity, q[at], v[at], p[at], MOMENTUM_Y);
            sum += q[at];
        }
        const double change = scale
                              * (fx[1] - fx[0] + fx[3] - fx[2] + fy[2] - fy[0] + fy[3] - fy[1]);
        target[i] = (mean ? 0.25 * sum : target[i]) - change;
    }
}

// The quantity as a constant, so that a loop holds no question about it.
static void step(const struct gas *from, struct gas *to, int quantity, int j, ptrdiff_t shift,
                 int first, double time, bool mean)
{
    switch (quantity) {
    case DENSITY: step_row(from, to, DENSITY, j, shift, first, time, mean); break;
    case MOMENTUM_X: step_row(from, to, MOMENTUM_X, j, shift, first, time, mean); break;
    case MOMENTUM_Y: step_row(from, to, MOMENTUM_Y, j, shift, first, time, mean); break;
    default: step_row(from, to, ENERGY, j, shift, first, time, mean); break;
    }
}

static void to_corners(int quantity, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int j = 0; j <= n; j++)
        step(&cells, &corners, quantity, j, 0, 0, 0.5 * dt, true);
}

static void to_cells(int quantity, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int j = 1; j <= n; j++) {
        double *field = cells.quantity[quantity], *at = field + j * row;
        step(&corners, &cells, quantity, j, -row - 1, 1, dt, false);
        at[0] = at[n];
        at[n + 1] = at[1];
        if (j == 1)
            memcpy(field + (n + 1) * row, at, (size_t)(n + 2) * sizeof(double));
        if (j == n)
            memcpy(field, at, (size_t)(n + 2) * sizeof(double));
    }
}

static void advance(void)
{
    derive(&cells, n + 1);
#pragma omp parallel sections num_threads(groups)
    {
#pragma omp section
        to_corners(DENSITY, members);
#pragma omp section
        to_corners(MOMENTUM_X, members);
#pragma omp section
        to_corners(MOMENTUM_Y, members);
#pragma omp section
        to_corners(ENERGY, members);
    }
    derive(&corners, n);
#pragma omp parallel sections num_threads(groups)
    {
#pragma omp section
        to_cells(DENSITY, members);
#pragma omp section
        to_cells(MOMENTUM_X, members);
#pragma omp section
        to_cells(MOMENTUM_Y, members);
#pragma omp section
        to_cells(ENERGY, members);
    }
}

struct measures {
    double sums[QUANTITIES];
    struct digest digests[QUANTITIES];
    double distance; // from the exact solution, the largest
};

static struct measures measure(double time)
{
    struct measures measures = { .distance = 0 };
    for (int q = 0; q < QUANTITIES; q++)
        measures.digests[q] = digest_begin();
    for (int j = 1; j <= n; j++)
        for (int i = 1; i <= n; i++) {
            double value[QUANTITIES];
            exact(j, i, time, value);
            for (int q = 0; q < QUANTITIES; q++) {
                const double is = cells.quantity[q][j * row + i];
                measures.sums[q] += is;
                digest_add(&measures.digests[q], is);
                measures.distance = larger_difference(measures.distance, fabs(is - value[q]));
            }
        }
    return measures;
}

static void allocate(struct gas *gas)
{
    const size_t points = (size_t)(row * row);
    for (int q = 0; q < QUANTITIES; q++)
        gas->quantity[q] = report_memory("a quantity", points, sizeof(double));
    gas->u = report_memory("the velocity in x", points, sizeof(double));
    gas->v = report_memory("the velocity in y", points, sizeof(double));
    gas->pressure = report_memory("the pressure", points, sizeof(double));
}

int main(int argc, char **argv)
{
    static const char *const names[QUANTITIES] = { "density", "momentum x", "momentum y",
                                                   "energy" };
    static const char *const digests[QUANTITIES] = { "digest of density", "digest of momentum x",
                                                     "digest of momentum y", "digest of energy" };
    long levels = 2;
    const struct option_extra extra[] = {
        { "levels", "2: four sections at a time, 1: one after the other", 1, &levels },
        { NULL, NULL, 0, NULL },
    };
    struct options options = options_read(argc, argv, extra);
    const struct class *class = &classes[options_row(&options)];
    if (levels > 2) {
        fprintf(stderr, "hydro2d: --levels: 1 or 2, not %ld\n", levels);
        return 2;
    }
    const int threads = omp_get_max_threads();
    groups = levels == 1 ? 1 : threads < QUANTITIES ? threads : QUANTITIES;
    members = threads / groups;
    omp_set_max_active_levels(2);
    n = class->n;
    row = n + 2;
    h = SIDE / n;
    dt = COURANT * h / (sqrt(WIND_X * WIND_X + WIND_Y * WIND_Y) + sqrt(GAMMA) + 0.5);
    allocate(&cells);
    allocate(&corners);
    struct report report = report_begin("hydro2d", &options, class->steps,
                                        200.0 * n * n * class->steps);
    while (report_again(&report)) {
        initialise();
        const struct measures first = measure(0);
        report_start(&report);
        for (int step = 0; step < class->steps; step++)
            advance();
        report_stop(&report);
        const double time = class->steps * dt;
        const struct measures last = measure(time);
        for (int q = 0; q < QUANTITIES; q++)
            check_close(&report.checks, names[q], last.sums[q], first.sums[q], 1e-11);
        check_close(&report.checks, "distance over h^2 time", last.distance / (h * h * time), 0,
                    0.5);
        for (int q = 0; q < QUANTITIES; q++)
            check_close(&report.checks, digests[q], last.digests[q].sum, class->digests[q],
                        TOLERANCE);
    }
    return report_end(&report);
}
