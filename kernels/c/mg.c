// MG of the NAS parallel benchmarks: V-cycles of multigrid on the Poisson equation in a periodic
// cube, A u = v, where v is +1 and -1 at ten points each.
//
// Each level has n points a side and a layer of copies round them: interior points are 1 .. n, and
// point i of a level lies on point 2 i of the next finer one.

#include "common/options.h"
#include "common/outer.h"
#include "common/random.h"
#include "common/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED UINT64_C(314159265)
#define CHARGES 10
#define LEVELS 9
#define MOST (256 + 2)

struct class {
    int log2_n, iterations;
    double norm;
    double c[3]; // of the smoother; the corners' coefficient is 0 in all classes
};

#define SMOOTHER_SWA { -3.0 / 8, 1.0 / 32, -1.0 / 64 }

static const struct class classes[4] = {
    { 5, 4, 0.5307707005734e-04, SMOOTHER_SWA },
    { 7, 4, 0.6467329375339e-05, SMOOTHER_SWA },
    { 8, 4, 0.2433365309069e-05, SMOOTHER_SWA },
    { 8, 20, 0.1800564401355e-05, { -3.0 / 17, 1.0 / 33, -1.0 / 61 } },
};

// A cube with its layer of copies: n + 2 points a side, the first index (i1) the fastest.
struct grid {
    int n;
    double *at;
};

static inline double *line(const struct grid *g, int i3, int i2)
{
    size_t side = (size_t)g->n + 2;
    return g->at + ((size_t)i3 * side + (size_t)i2) * side;
}

static struct grid make_grid(int n)
{
    size_t side = (size_t)n + 2;
    struct grid g = { .n = n, .at = report_memory("a grid", side * side * side, sizeof(double)) };
    OUTER_ARRAY(g.at, side * side * side * sizeof(double));
    return g;
}

// The copies at the ends of the lines and of the plane i3, whose interior is complete.
static void wrap_plane(const struct grid *g, int i3)
{
    int n = g->n;
    for (int i2 = 1; i2 <= n; i2++) {
        double *row = line(g, i3, i2);
        row[0] = row[n];
        row[n + 1] = row[1];
    }
    double *first = line(g, i3, 0), *last = line(g, i3, n + 1);
    const double *from_last = line(g, i3, n), *from_first = line(g, i3, 1);
    for (int i1 = 0; i1 <= n + 1; i1++) {
        first[i1] = from_last[i1];
        last[i1] = from_first[i1];
    }
}

// The copies of the outermost planes.
static void wrap_planes(const struct grid *g)
{
    int n = g->n;
#pragma omp parallel for schedule(static)
    for (int i2 = 0; i2 <= n + 1; i2++) {
        double *first = line(g, 0, i2), *last = line(g, n + 1, i2);
        const double *from_last = line(g, n, i2), *from_first = line(g, 1, i2);
        for (int i1 = 0; i1 <= n + 1; i1++) {
            first[i1] = from_last[i1];
            last[i1] = from_first[i1];
        }
    }
}

static void clear(const struct grid *g)
{
#pragma omp parallel for schedule(static)
    for (int i3 = 0; i3 <= g->n + 1; i3++)
        for (int i2 = 0; i2 <= g->n + 1; i2++) {
            double *row = line(g, i3, i2);
            for (int i1 = 0; i1 <= g->n + 1; i1++)
                row[i1] = 0;
        }
}

// Sums over the neighbours of a line in the plane across it, of each point of the line: the four
// beside it, and the four at the corners.
static inline void cross(const struct grid *g, int i3, int i2, double *beside, double *corners)
{
    const double *up = line(g, i3, i2 + 1), *down = line(g, i3, i2 - 1);
    const double *over = line(g, i3 + 1, i2), *under = line(g, i3 - 1, i2);
    const double *a = line(g, i3 - 1, i2 - 1), *b = line(g, i3 - 1, i2 + 1);
    const double *c = line(g, i3 + 1, i2 - 1), *d = line(g, i3 + 1, i2 + 1);
    for (int i1 = 0; i1 <= g->n + 1; i1++) {
        beside[i1] = down[i1] + up[i1] + under[i1] + over[i1];
        corners[i1] = a[i1] + b[i1] + c[i1] + d[i1];
    }
}

// The planes first to last of a grid, by the calling thread.
static void tell_planes(const struct grid *g, int first, int last)
{
    const size_t plane = (size_t)(line(g, 1, 0) - line(g, 0, 0)) * sizeof(double);
    OUTER_TOUCH(line(g, first, 0), plane, plane, (size_t)(last - first + 1));
}

// A loop over the planes of `to` that writes them, and reads those of `from` round them: of a grid
// of the same size, of the next finer one, or of the next coarser one.
static void tell(const struct grid *from, const struct grid *to)
{
    if (!OUTER_ASKS())
        return;
    const int n = from->n < to->n ? from->n : to->n;
#pragma omp parallel for schedule(static)
    for (int i3 = from->n < to->n ? 0 : 1; i3 <= n; i3++)
        if (from->n < to->n) {
            tell_planes(from, i3, i3 + 1);
            tell_planes(to, 2 * i3, 2 * i3 + 1);
        } else {
            const int centre = from->n > to->n ? 2 * i3 : i3;
            tell_planes(from, centre - 1, centre + 1);
            tell_planes(to, i3, i3);
        }
}

// A loop over the planes of a grid that reads each one alone.
static void tell_own(const struct grid *g)
{
#pragma omp parallel for schedule(static)
    for (int i3 = 1; i3 <= g->n; i3++)
        tell_planes(g, i3, i3);
}

// r = v - A u; r may be v. A is -8/3 at the point, 0 at its sides, 1/6 at its edges, 1/12 at its
// corners.
static void residual(const struct grid *u, const struct grid *v, const struct grid *r)
{
    int n = u->n;
    tell(u, r);
    if (OUTER_ASKS() && v != r)
        tell_own(v);
#pragma omp parallel for schedule(static)
    for (int i3 = 1; i3 <= n; i3++) {
        double beside[MOST], corners[MOST];
        for (int i2 = 1; i2 <= n; i2++) {
            cross(u, i3, i2, beside, corners);
            const double *centre = line(u, i3, i2), *right = line(v, i3, i2);
            double *result = line(r, i3, i2);
#pragma omp simd
            for (int i1 = 1; i1 <= n; i1++)
                result[i1] = right[i1] + 8.0 / 3 * centre[i1]
                             - 1.0 / 6 * (corners[i1] + beside[i1 - 1] + beside[i1 + 1])
                             - 1.0 / 12 * (corners[i1 - 1] + corners[i1 + 1]);
        }
        wrap_plane(r, i3);
    }
    wrap_planes(r);
}

// u = u + S r.
static void smooth(const struct grid *r, const struct grid *u, const double *coefficients)
{
    int n = u->n;
    double c0 = coefficients[0], c1 = coefficients[1], c2 = coefficients[2];
    tell(r, u);
#pragma omp parallel for schedule(static)
    for (int i3 = 1; i3 <= n; i3++) {
        double beside[MOST], corners[MOST];
        for (int i2 = 1; i2 <= n; i2++) {
            cross(r, i3, i2, beside, corners);
            const double *centre = line(r, i3, i2);
            double *result = line(u, i3, i2);
#pragma omp simd
            for (int i1 = 1; i1 <= n; i1++)
                result[i1] += c0 * centre[i1] + c1 * (centre[i1 - 1] + centre[i1 + 1] + beside[i1])
                              + c2 * (corners[i1] + beside[i1 - 1] + beside[i1 + 1]);
        }
        wrap_plane(u, i3);
    }
    wrap_planes(u);
}

// coarse = P fine: 1/2 of the point, 1/4 of its sides, 1/8 of its edges, 1/16 of its corners.
static void restrict_to(const struct grid *fine, const struct grid *coarse)
{
    int n = coarse->n;
    tell(fine, coarse);
#pragma omp parallel for schedule(static)
    for (int i3 = 1; i3 <= n; i3++) {
        double beside[MOST], corners[MOST];
        for (int i2 = 1; i2 <= n; i2++) {
            cross(fine, 2 * i3, 2 * i2, beside, corners);
            const double *centre = line(fine, 2 * i3, 2 * i2);
            double *result = line(coarse, i3, i2);
            for (int i1 = 1; i1 <= n; i1++) {
                int f = 2 * i1;
                result[i1] = 0.5 * centre[f] + 0.25 * (centre[f - 1] + centre[f + 1] + beside[f])
                             + 0.125 * (corners[f] + beside[f - 1] + beside[f + 1])
                             + 0.0625 * (corners[f - 1] + corners[f + 1]);
            }
        }
        wrap_plane(coarse, i3);
    }
    wrap_planes(coarse);
}

// One line of Q z: the even points take `from` as it is, the odd ones the mean of two.
static inline void spread_line(const double *from, double scale, double *to, int n, bool add)
{
    if (add)
        for (int i = 0; i <= n; i++) {
            to[2 * i] += scale * from[i];
            to[2 * i + 1] += 0.5 * scale * (from[i] + from[i + 1]);
        }
    else
        for (int i = 0; i <= n; i++) {
            to[2 * i] = scale * from[i];
            to[2 * i + 1] = 0.5 * scale * (from[i] + from[i + 1]);
        }
}

// fine = Q coarse, or fine = fine + Q coarse; the copies too, so that nothing is wrapped after it.
static void interpolate(const struct grid *coarse, const struct grid *fine, bool add)
{
    int n = coarse->n;
    tell(coarse, fine);
#pragma omp parallel for schedule(static)
    for (int i3 = 0; i3 <= n; i3++) {
        double up[MOST], over[MOST], both[MOST];
        for (int i2 = 0; i2 <= n; i2++) {
            const double *z00 = line(coarse, i3, i2), *z01 = line(coarse, i3, i2 + 1);
            const double *z10 = line(coarse, i3 + 1, i2), *z11 = line(coarse, i3 + 1, i2 + 1);
            for (int i1 = 0; i1 <= n + 1; i1++) {
                up[i1] = z00[i1] + z01[i1];
                over[i1] = z00[i1] + z10[i1];
                both[i1] = up[i1] + z10[i1] + z11[i1];
            }
            spread_line(z00, 1, line(fine, 2 * i3, 2 * i2), n, add);
            spread_line(up, 0.5, line(fine, 2 * i3, 2 * i2 + 1), n, add);
            spread_line(over, 0.5, line(fine, 2 * i3 + 1, 2 * i2), n, add);
            spread_line(both, 0.25, line(fine, 2 * i3 + 1, 2 * i2 + 1), n, add);
        }
    }
}

// The root of the mean square of the interior points.
static double norm(const struct grid *r)
{
    int n = r->n;
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int i3 = 1; i3 <= n; i3++)
        for (int i2 = 1; i2 <= n; i2++) {
            const double *row = line(r, i3, i2);
            double of_row = 0;
#pragma omp simd reduction(+ : of_row)
            for (int i1 = 1; i1 <= n; i1++)
                of_row += row[i1] * row[i1];
            sum += of_row;
        }
    return sqrt(sum / n / n / n);
}

// The ten points with the largest keys so far, largest first.
struct peaks {
    double key[CHARGES];
    long long place[CHARGES];
    int count;
};

static void offer(struct peaks *peaks, double key, long long place)
{
    int at = peaks->count;
    if (at == CHARGES) {
        if (key <= peaks->key[CHARGES - 1])
            return;
        at--;
    } else {
        peaks->count++;
    }
    for (; at > 0 && peaks->key[at - 1] < key; at--) {
        peaks->key[at] = peaks->key[at - 1];
        peaks->place[at] = peaks->place[at - 1];
    }
    peaks->key[at] = key;
    peaks->place[at] = place;
}

static void put_charges(const struct grid *v, const struct peaks *peaks, double charge)
{
    long long n = v->n;
    for (int i = 0; i < peaks->count; i++) {
        long long place = peaks->place[i];
        line(v, (int)(place / (n * n)) + 1, (int)(place / n % n) + 1)[place % n + 1] = charge;
    }
}

// v: one random number a point, +1 at the ten largest, -1 at the ten smallest, 0 elsewhere.
static void make_charges(const struct grid *v)
{
    long long n = v->n;
    struct peaks largest = { .count = 0 }, smallest = { .count = 0 };
    clear(v);
#pragma omp parallel
    {
        struct peaks high = { .count = 0 }, low = { .count = 0 };
#pragma omp for schedule(static)
        for (long long i3 = 0; i3 < n; i3++) {
            uint64_t seed = random_skip(SEED, (uint64_t)(i3 * n * n));
            for (long long i = i3 * n * n; i < (i3 + 1) * n * n; i++) {
                double key = random_next(&seed);
                offer(&high, key, i);
                offer(&low, -key, i);
            }
        }
#pragma omp critical
        for (int i = 0; i < CHARGES; i++) {
            if (i < high.count)
                offer(&largest, high.key[i], high.place[i]);
            if (i < low.count)
                offer(&smallest, low.key[i], low.place[i]);
        }
    }
    put_charges(v, &largest, 1);
    put_charges(v, &smallest, -1);
    for (int i3 = 1; i3 <= n; i3++)
        wrap_plane(v, i3);
    wrap_planes(v);
}

// One V-cycle: u = u + M r, then r is the residual of what was smoothed last. u[k] and r[k] are
// the levels, `top` the finest.
static void cycle(const struct grid *u, const struct grid *v, const struct grid *r, int top,
                  const double *c)
{
    for (int k = top; k > 1; k--)
        restrict_to(&r[k], &r[k - 1]);
    clear(&u[1]);
    smooth(&r[1], &u[1], c);
    for (int k = 2; k < top; k++) {
        interpolate(&u[k - 1], &u[k], false);
        residual(&u[k], &r[k], &r[k]);
        smooth(&r[k], &u[k], c);
    }
    interpolate(&u[top - 1], &u[top], true);
    residual(&u[top], v, &r[top]);
    smooth(&r[top], &u[top], c);
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct class *class = &classes[options_row(&options)];
    int top = class->log2_n;
    double points = pow(2, 3 * top);
    struct grid u[LEVELS], r[LEVELS], v = make_grid(1 << top);
    for (int k = 1; k <= top; k++) {
        u[k] = make_grid(1 << k);
        r[k] = make_grid(1 << k);
        clear(&u[k]);
        clear(&r[k]);
    }
    make_charges(&v);
    struct report report = report_begin("mg", &options, class->iterations,
                                        58 * points * class->iterations);
    while (report_again(&report)) {
        clear(&u[top]);
        report_start(&report);
        residual(&u[top], &v, &r[top]);
        for (int i = 0; i < class->iterations; i++) {
            OUTER_BEGIN();
            cycle(u, &v, r, top, class->c);
            residual(&u[top], &v, &r[top]);
            OUTER_END();
        }
        double result = norm(&r[top]);
        report_stop(&report);
        check_close(&report.checks, "norm of the residual", result, class->norm, 1e-8);
    }
    return report_end(&report);
}
