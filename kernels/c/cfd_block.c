// Block tridiagonal systems along lines of points, and BT's classes.
#include "cfd_block.h"

#include <math.h>

const struct cfd_bt_class cfd_bt_classes[4] = {
    { 12, 0.010, 60,
      { 1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02,
        2.6436421275166801e-02, 1.9211784131744430e-01 },
      { 4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05,
        7.3821238632439731e-05, 8.9269630987491446e-04 } },
    { 24, 0.0008, 200,
      { 0.1125590409344e+03, 0.1180007595731e+02, 0.2710329767846e+02, 0.2469174937669e+02,
        0.2638427874317e+03 },
      { 0.4419655736008e+01, 0.4638531260002e+00, 0.1011551749967e+01, 0.9235878729944e+00,
        0.1018045837718e+02 } },
    { 64, 0.0008, 200,
      { 1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01,
        2.3665622544678910e+01, 2.5278963211748344e+02 },
      { 4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01,
        8.8302063039765474e-01, 9.7379901770829278e+00 } },
    { 102, 0.0003, 200,
      { 1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02,
        3.2485447959084092e+02, 3.2707541254659363e+03 },
      { 5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01,
        1.2006925323559144e+01, 1.2459576151035986e+02 } },
};

double cfd_bt_operations(const struct cfd_bt_class *class)
{
    double n = class->n;
    return class->steps * (3478.8 * n * n * n - 17655.7 * n * n + 28023.7 * n);
}

static inline __attribute__((always_inline)) cfd_pair splat(double value)
{
    return (cfd_pair){ value, value };
}

static inline __attribute__((always_inline)) cfd_pair load(const double *p, ptrdiff_t next)
{
    return (cfd_pair){ p[0], p[next] };
}

static inline __attribute__((always_inline)) void store(double *p, ptrdiff_t next, cfd_pair value)
{
    p[0] = value[0];
    p[next] = value[1]; // next == 0: the same line twice, the same value
}

// Whether an element of A or N can differ from zero: row and column of the block.
static inline __attribute__((always_inline)) int filled(int direction, int row, int column)
{
    if (row == 0)
        return column == 0 || column == 1 + direction;
    if (row == 1 + direction || row == 4)
        return 1;
    return column == 0 || column == row || column == 1 + direction;
}

// A point's three parts: what multiplies its change in its own block row, in the row of the
// point after it (`lower` there), and in the row of the point before it (`upper` there).
struct parts {
    cfd_block lower, own, upper;
};

static inline __attribute__((always_inline)) void
point(const struct cfd *cfd, int direction, const double *q, ptrdiff_t next, struct parts *parts)
{
    const ptrdiff_t row = cfd->row;
    const double t1 = cfd->dt / (cfd->h * cfd->h), t2 = cfd->dt / (2 * cfd->h);
    const cfd_pair zero = splat(0);
    const cfd_pair inverse = load(q + INVERSE * row, next);
    const cfd_pair half = load(q + HALF_SQUARE * row, next);
    const cfd_pair energy = load(q + ENERGY * row, next) * inverse;
    cfd_pair v[3];
    for (int d = 0; d < 3; d++)
        v[d] = load(q + (VELOCITY + d) * row, next);
    const cfd_pair along = v[direction];

    cfd_block a, n;
    for (int r = 0; r < UNKNOWNS; r++)
        for (int c = 0; c < UNKNOWNS; c++)
            a[r][c] = n[r][c] = zero;
    // The flow of density is the momentum; of a momentum it is that times the velocity, and the
    // pressure c2 (energy - kinetic energy) in this direction; of energy it is energy and
    // pressure times the velocity.
    a[0][1 + direction] = splat(1);
    for (int d = 0; d < 3; d++) {
        a[1 + d][0] = -v[d] * along;
        a[1 + d][1 + d] = along;
        if (d != direction)
            a[1 + d][1 + direction] = v[d];
    }
    a[1 + direction][0] += CFD_C2 * half;
    for (int d = 0; d < 3; d++)
        a[1 + direction][1 + d] -= CFD_C2 * v[d];
    a[1 + direction][1 + direction] += along;
    a[1 + direction][4] = splat(CFD_C2);
    a[4][0] = along * (2 * CFD_C2 * half - CFD_C1 * energy);
    for (int d = 0; d < 3; d++)
        a[4][1 + d] = -CFD_C2 * v[d] * along;
    a[4][1 + direction] += CFD_C1 * energy - CFD_C2 * half;
    a[4][4] = CFD_C1 * along;
    // The viscous flow of a momentum is the difference of the velocity, times 4/3 in this
    // direction; of energy those of half the square of the velocity and of the inner energy.
    n[4][0] = -CFD_C1345 * energy * inverse;
    for (int d = 0; d < 3; d++) {
        double c = d == direction ? 4.0 / 3.0 * CFD_C34 : CFD_C34;
        n[1 + d][0] = -c * v[d] * inverse;
        n[1 + d][1 + d] = c * inverse;
        n[4][0] -= (c - CFD_C1345) * v[d] * v[d] * inverse;
        n[4][1 + d] = (c - CFD_C1345) * v[d] * inverse;
    }
    n[4][4] = CFD_C1345 * inverse;
    for (int r = 0; r < UNKNOWNS; r++)
        n[r][r] += splat(cfd_second[direction]);

#pragma GCC unroll 5
    for (int r = 0; r < UNKNOWNS; r++)
#pragma GCC unroll 5
        for (int c = 0; c < UNKNOWNS; c++) {
            parts->lower[r][c] = -t2 * a[r][c] - t1 * n[r][c];
            parts->upper[r][c] = t2 * a[r][c] - t1 * n[r][c];
            parts->own[r][c] = 2 * t1 * n[r][c] + splat(r == c ? 1 : 0);
        }
}

static inline __attribute__((always_inline)) void
eliminate(const struct cfd *cfd, int direction, struct cfd_lines lines, int first, int end,
          cfd_block *upper)
{
    const ptrdiff_t step = cfd->step[direction], change_step = cfd->change_step[direction];
    const ptrdiff_t row = cfd->row;
    const double *q = lines.state + first * step;
    double *r = lines.change + first * change_step;
    struct parts window[3]; // the points m - 1, m, m + 1, each at its number modulo 3
    if (first > 1)
        point(cfd, direction, q - step, lines.state_next, &window[(first - 1) % 3]);
    point(cfd, direction, q, lines.state_next, &window[first % 3]);
    for (int m = first; m < end; m++, q += step, r += change_step) {
        struct parts *ahead = &window[(m + 1) % 3];
        point(cfd, direction, q + step, lines.state_next, ahead);
        const struct parts *behind = &window[(m + 2) % 3];
        // The block row [own, upper | right], after subtraction of `lower` times the row before.
        cfd_pair b[UNKNOWNS][UNKNOWNS], right[UNKNOWNS];
        for (int a = 0; a < UNKNOWNS; a++) {
            right[a] = load(r + a * row, lines.change_next);
            for (int c = 0; c < UNKNOWNS; c++)
                b[a][c] = window[m % 3].own[a][c];
        }
        if (m > 1) {
            const cfd_block *before = &upper[m - 1];
#pragma GCC unroll 5
            for (int e = 0; e < UNKNOWNS; e++) {
                cfd_pair value = load(r - change_step + e * row, lines.change_next);
#pragma GCC unroll 5
                for (int a = 0; a < UNKNOWNS; a++)
                    if (filled(direction, a, e) || a == e) {
                        cfd_pair factor = behind->lower[a][e];
                        right[a] -= factor * value;
#pragma GCC unroll 5
                        for (int c = 0; c < UNKNOWNS; c++)
                            b[a][c] -= factor * (*before)[e][c];
                    }
            }
        }
        // Gaussian elimination without pivots: the diagonal dominates.
        cfd_pair u[UNKNOWNS][UNKNOWNS];
        for (int a = 0; a < UNKNOWNS; a++)
            for (int c = 0; c < UNKNOWNS; c++)
                u[a][c] = ahead->upper[a][c];
#pragma GCC unroll 5
        for (int p = 0; p < UNKNOWNS; p++) {
            cfd_pair pivot = 1.0 / b[p][p];
#pragma GCC unroll 5
            for (int c = p + 1; c < UNKNOWNS; c++)
                b[p][c] *= pivot;
#pragma GCC unroll 5
            for (int c = 0; c < UNKNOWNS; c++)
                u[p][c] *= pivot;
            right[p] *= pivot;
#pragma GCC unroll 5
            for (int a = p + 1; a < UNKNOWNS; a++) {
                cfd_pair factor = b[a][p];
#pragma GCC unroll 5
                for (int c = p + 1; c < UNKNOWNS; c++)
                    b[a][c] -= factor * b[p][c];
#pragma GCC unroll 5
                for (int c = 0; c < UNKNOWNS; c++)
                    u[a][c] -= factor * u[p][c];
                right[a] -= factor * right[p];
            }
        }
#pragma GCC unroll 5
        for (int p = UNKNOWNS - 1; p > 0; p--)
#pragma GCC unroll 5
            for (int a = 0; a < p; a++) {
                cfd_pair factor = b[a][p];
#pragma GCC unroll 5
                for (int c = 0; c < UNKNOWNS; c++)
                    u[a][c] -= factor * u[p][c];
                right[a] -= factor * right[p];
            }
        for (int a = 0; a < UNKNOWNS; a++) {
            store(r + a * row, lines.change_next, right[a]);
            for (int c = 0; c < UNKNOWNS; c++)
                upper[m][a][c] = u[a][c];
        }
    }
}

void cfd_eliminate(const struct cfd *cfd, int direction, struct cfd_lines lines, int first,
                   int end, cfd_block *upper)
{
    // The direction as a constant, so that what is zero in a block costs nothing.
    switch (direction) {
    case 0: eliminate(cfd, 0, lines, first, end, upper); break;
    case 1: eliminate(cfd, 1, lines, first, end, upper); break;
    default: eliminate(cfd, 2, lines, first, end, upper); break;
    }
}

void cfd_substitute(const struct cfd *cfd, int direction, struct cfd_lines lines, int first,
                    int end, cfd_block *upper)
{
    const ptrdiff_t step = cfd->change_step[direction], row = cfd->row;
    if (end > cfd->n - 2) // after the last inner point the change is zero
        end = cfd->n - 2;
    cfd_pair after[UNKNOWNS];
    for (int e = 0; e < UNKNOWNS; e++)
        after[e] = load(lines.change + end * step + e * row, lines.change_next);
    for (int m = end - 1; m >= first; m--) {
        double *r = lines.change + m * step;
        cfd_pair right[UNKNOWNS];
        for (int a = 0; a < UNKNOWNS; a++)
            right[a] = load(r + a * row, lines.change_next);
#pragma GCC unroll 5
        for (int e = 0; e < UNKNOWNS; e++)
#pragma GCC unroll 5
            for (int a = 0; a < UNKNOWNS; a++)
                right[a] -= upper[m][a][e] * after[e];
        for (int a = 0; a < UNKNOWNS; a++) {
            after[a] = right[a];
            store(r + a * row, lines.change_next, right[a]);
        }
    }
}

struct cfd_lines cfd_lines(const struct cfd *cfd, int direction, int a, int b, int last)
{
    int along_a = direction == 0 ? 1 : 0, along_b = direction == 2 ? 1 : 2;
    bool single = a == last;
    return (struct cfd_lines){
        .state = cfd->state + a * cfd->step[along_a] + b * cfd->step[along_b],
        .change = cfd->change + a * cfd->change_step[along_a] + b * cfd->change_step[along_b],
        .state_next = single ? 0 : cfd->step[along_a],
        .change_next = single ? 0 : cfd->change_step[along_a],
    };
}

void cfd_block_solve(const struct cfd *cfd, int direction)
{
    const int inner = cfd->n - 2;
    cfd_tell_solve(cfd, direction);
#pragma omp parallel
    {
        cfd_block upper[cfd->n];
#pragma omp for schedule(static)
        for (int b = 1; b <= inner; b++)
            for (int a = 1; a <= inner; a += 2) {
                struct cfd_lines lines = cfd_lines(cfd, direction, a, b, inner);
                cfd_eliminate(cfd, direction, lines, 1, inner + 1, upper);
                cfd_substitute(cfd, direction, lines, 1, inner + 1, upper);
            }
    }
}
