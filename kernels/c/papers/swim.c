// A code like SPECfp95's swim: the shallow water equations on a periodic square, by finite
// differences on a staggered grid (Sadourny's scheme of 1975), with leapfrog steps that a time
// filter couples. Three parallel loops a step; it scales with the memory.
//
// The unknowns are the velocities u, v and the geopotential p. Of cell (j, i), u[j][i] lies on the
// left side, v[j][i] on the lower side, p[j][i] in the middle, and the potential vorticity
// z[j][i] in the lower left corner. A layer of copies goes round each array.
//
// What verifies it: the flow begins as a square of vortices in a wind, which carries them along and
// changes nothing else where p is large (a solution of Euler's equations): velocities that differ
// from it in more than the differences' error and the share of the waves mean that a term is
// wrong. The sum of p stays the same up to rounding, the energy up to the time step's error. These
// bounds are wide: what was left out in one step shows in the fields' digests, whose right values
// are recorded.
#include "common/digest.h"
#include "common/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define LEVEL 900.0   // the mean of p; the waves' speed is its root
#define FILTER 0.001  // of the time filter
#define COURANT 0.2   // the waves' way in a time step, in cells
#define TOLERANCE 1e-10 // of digests
#define WIND_X 3.0
#define WIND_Y 2.0

enum { U, V, P, FIELDS };

static const struct class {
    int n, steps;
    double digests[FIELDS]; // after the last step
} classes[4] = {
    { 64, 200, { 53.2885269770019, 48.3866996827092, -1.95548813170318 } },
    { 256, 400, { -55.7206434435886, -33.8244148017064, 0.538918868423782 } },
    { 512, 1200, { -216.996887224932, -67.4960130902295, 32.2349545766387 } },
    { 1024, 2400, { -85.3619599780707, -147.30993184152, 9.98517935805518 } },
};

struct water {
    int n;
    size_t row;
    double h, dt;
    double *now[FIELDS], *old[FIELDS], *new[FIELDS];
    double *cu, *cv, *z, *head; // the flows of p, the potential vorticity, p and kinetic energy
};

// The vortices at a time: 2 pi is the square's side.
static void carried(const struct water *water, double time, int j, int i, double value[FIELDS])
{
    const double x = i * water->h - WIND_X * time, y = j * water->h - WIND_Y * time;
    const double middle = 0.5 * water->h;
    value[U] = WIND_X + sin(x) * cos(y + middle);
    value[V] = WIND_Y - cos(x + middle) * sin(y);
    value[P] = LEVEL + 0.25 * (cos(2 * (x + middle)) + cos(2 * (y + middle)));
}

static void initialise(struct water *water)
{
    const int n = water->n;
#pragma omp parallel for schedule(static)
    for (int j = 0; j < n + 2; j++)
        for (int i = 0; i < n + 2; i++) {
            const size_t at = j * water->row + i;
            double value[FIELDS];
            carried(water, 0, j, i, value);
            for (int f = 0; f < FIELDS; f++)
                water->now[f][at] = water->old[f][at] = water->new[f][at] = value[f];
            water->cu[at] = water->cv[at] = water->z[at] = water->head[at] = 0;
        }
}

// Flows, vorticity and head, also on those copies that the next loop reads.
static void derive(struct water *water)
{
    const int n = water->n;
    const ptrdiff_t row = water->row;
    const double scale = 4 / water->h;
#pragma omp parallel for schedule(static)
    for (int j = 0; j < n + 2; j++) {
        const double *restrict u = water->now[U] + j * row, *restrict v = water->now[V] + j * row;
        const double *restrict p = water->now[P] + j * row;
        double *restrict cu = water->cu + j * row, *restrict cv = water->cv + j * row;
        double *restrict z = water->z + j * row, *restrict head = water->head + j * row;
        if (j <= n) {
            for (int i = 1; i < n + 2; i++)
                cu[i] = 0.5 * (p[i] + p[i - 1]) * u[i];
            for (int i = 0; i <= n; i++)
                head[i] = p[i]
                          + 0.25 * (u[i] * u[i] + u[i + 1] * u[i + 1] + v[i] * v[i]
                                    + v[i + row] * v[i + row]);
        }
        if (j >= 1) {
            for (int i = 0; i <= n; i++)
                cv[i] = 0.5 * (p[i] + p[i - row]) * v[i];
            for (int i = 1; i < n + 2; i++)
                z[i] = scale * (v[i] - v[i - 1] - u[i] + u[i - row])
                       / (p[i] + p[i - 1] + p[i - row] + p[i - row - 1]);
        }
    }
}

// A new row's copies: at its ends, and of the whole row beyond the opposite side.
static void copy_around(double *field, size_t row, int n, int j)
{
    double *at = field + j * row;
    at[0] = at[n];
    at[n + 1] = at[1];
    if (j == 1)
        memcpy(field + (n + 1) * row, at, (n + 2) * sizeof(double));
    if (j == n)
        memcpy(field, at, (n + 2) * sizeof(double));
}

// The new values of a row, for a turn of dt / 8 and a slope of dt / h.
static void advance_row(struct water *water, int j, double turn, double slope)
{
    const int n = water->n;
    const ptrdiff_t row = water->row;
    const double *restrict cu = water->cu + j * row, *restrict cv = water->cv + j * row;
    const double *restrict z = water->z + j * row, *restrict head = water->head + j * row;
    const double *restrict u = water->old[U] + j * row, *restrict v = water->old[V] + j * row;
    const double *restrict p = water->old[P] + j * row;
    double *restrict new_u = water->new[U] + j * row, *restrict new_v = water->new[V] + j * row;
    double *restrict new_p = water->new[P] + j * row;
    for (int i = 1; i <= n; i++) {
        new_u[i] = u[i]
                   + turn * (z[i] + z[i + row])
                         * (cv[i] + cv[i + row] + cv[i - 1] + cv[i + row - 1])
                   - slope * (head[i] - head[i - 1]);
        new_v[i] = v[i]
                   - turn * (z[i] + z[i + 1])
                         * (cu[i] + cu[i + 1] + cu[i - row] + cu[i - row + 1])
                   - slope * (head[i] - head[i - row]);
        new_p[i] = p[i] - slope * (cu[i + 1] - cu[i] + cv[i + row] - cv[i]);
    }
}

// The new values from the old ones, a step of `dt` later.
static void advance(struct water *water, double dt)
{
    const int n = water->n;
    const double turn = dt / 8, slope = dt / water->h;
#pragma omp parallel for schedule(static)
    for (int j = 1; j <= n; j++) {
        advance_row(water, j, turn, slope);
        for (int f = 0; f < FIELDS; f++)
            copy_around(water->new[f], water->row, n, j);
    }
}

// The values become old, filtered by their neighbours in time; the new ones become present.
static void filter(struct water *water, double strength)
{
#pragma omp parallel for schedule(static)
    for (int j = 0; j < water->n + 2; j++)
        for (int f = 0; f < FIELDS; f++) {
            double *restrict now = water->now[f] + j * water->row;
            double *restrict old = water->old[f] + j * water->row;
            const double *restrict new = water->new[f] + j * water->row;
            for (int i = 0; i < water->n + 2; i++) {
                old[i] = now[i] + strength * (new[i] - 2 * now[i] + old[i]);
                now[i] = new[i];
            }
        }
}

struct measures {
    double volume, energy;
    double distance; // of a velocity from the vortices that are carried along, the largest
    struct digest digests[FIELDS];
};

static struct measures measure(const struct water *water, double time)
{
    struct measures sums = { 0 };
    for (int f = 0; f < FIELDS; f++)
        sums.digests[f] = digest_begin();
    for (int j = 1; j <= water->n; j++)
        for (int i = 1; i <= water->n; i++) {
            const size_t at = j * water->row + i;
            const double *u = water->now[U] + at, *v = water->now[V] + at, *p = water->now[P] + at;
            double value[FIELDS];
            carried(water, time, j, i, value);
            sums.volume += *p;
            // Without the level's own part, which the volume decides.
            sums.energy += 0.5 * *p
                           * 0.5 * (u[0] * u[0] + u[1] * u[1] + v[0] * v[0]
                                    + v[water->row] * v[water->row])
                       + 0.5 * (*p - LEVEL) * (*p - LEVEL);
            sums.distance = larger_difference(sums.distance, fabs(*u - value[U]));
            sums.distance = larger_difference(sums.distance, fabs(*v - value[V]));
            digest_add(&sums.digests[U], *u);
            digest_add(&sums.digests[V], *v);
            digest_add(&sums.digests[P], *p - LEVEL);
        }
    return sums;
}

int main(int argc, char **argv)
{
    static const char *const names[FIELDS] = { "digest of u", "digest of v", "digest of p" };
    struct options options = options_read(argc, argv, NULL);
    const struct class *class = &classes[options_row(&options)];
    const int n = class->n;
    struct water water = { .n = n, .row = n + 2, .h = 2 * PI / n };
    water.dt = COURANT * water.h / sqrt(LEVEL);
    const size_t cells = water.row * water.row;
    for (int f = 0; f < FIELDS; f++) {
        water.now[f] = report_memory("the present values", cells, sizeof(double));
        water.old[f] = report_memory("the old values", cells, sizeof(double));
        water.new[f] = report_memory("the new values", cells, sizeof(double));
    }
    water.cu = report_memory("the flow in x", cells, sizeof(double));
    water.cv = report_memory("the flow in y", cells, sizeof(double));
    water.z = report_memory("the vorticity", cells, sizeof(double));
    water.head = report_memory("the head", cells, sizeof(double));
    struct report report = report_begin("swim", &options, class->steps,
                                        65.0 * n * n * class->steps);
    while (report_again(&report)) {
        initialise(&water);
        const struct measures first = measure(&water, 0);
        report_start(&report);
        for (int step = 0; step < class->steps; step++) {
            // The first step has no old values: it is half as long, and does not filter.
            derive(&water);
            advance(&water, step == 0 ? water.dt : 2 * water.dt);
            filter(&water, step == 0 ? 0 : FILTER);
        }
        report_stop(&report);
        const struct measures last = measure(&water, class->steps * water.dt);
        check_close(&report.checks, "volume", last.volume, first.volume, 1e-12);
        check_close(&report.checks, "energy", last.energy, first.energy, 1e-3);
        check_close(&report.checks, "distance from vortices", last.distance, 0, 2e-3);
        for (int f = 0; f < FIELDS; f++)
            check_close(&report.checks, names[f], last.digests[f].sum, class->digests[f],
                        TOLERANCE);
    }
    return report_end(&report);
}
