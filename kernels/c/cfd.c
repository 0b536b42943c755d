// The grid, the exact solution, the initial values, the right-hand side and the norms.
#include "cfd.h"
#include "common/outer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The exact solution's coefficients: for each unknown the constant, then x, y, z, their
// squares, their cubes and their fourth powers.
static const double exact_coefficients[UNKNOWNS][13] = {
    { 2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3 },
    { 1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5 },
    { 2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4 },
    { 2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3 },
    { 5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2 },
};

static void exact(double x, double y, double z, double u[UNKNOWNS])
{
    const double at[3] = { x, y, z };
    for (int m = 0; m < UNKNOWNS; m++) {
        const double *c = exact_coefficients[m];
        u[m] = c[0];
        for (int d = 0; d < 3; d++)
            u[m] += at[d]
                    * (c[1 + d] + at[d] * (c[4 + d] + at[d] * (c[7 + d] + at[d] * c[10 + d])));
    }
}

// The weights of u[m - 2] ... u[m + 2]: 1 -4 6 -4 1 inside; next to the boundary the points
// beyond it are left out.
static void fourth_weights(struct cfd *cfd)
{
    const double inside[5] = { 1, -4, 6, -4, 1 };
    int n = cfd->n;
    for (int w = 0; w < 5; w++)
        for (int m = 0; m < n; m++)
            cfd->fourth[w * n + m] = CFD_FOURTH * inside[w];
    cfd->fourth[0 * n + 1] = cfd->fourth[1 * n + 1] = 0;
    cfd->fourth[2 * n + 1] = CFD_FOURTH * 5;
    cfd->fourth[0 * n + 2] = 0;
    cfd->fourth[4 * n + n - 3] = 0;
    cfd->fourth[4 * n + n - 2] = cfd->fourth[3 * n + n - 2] = 0;
    cfd->fourth[2 * n + n - 2] = CFD_FOURTH * 5;
}

void cfd_open(struct cfd *cfd, int n, double dt)
{
    // Odd row lengths and row numbers, so that points above each other do not all meet in the
    // same few sets of a cache.
    ptrdiff_t odd = n | 1;
    *cfd = (struct cfd){ .n = n, .dt = dt, .h = 1.0 / (n - 1), .row = odd };
    const ptrdiff_t step[3] = { 1, STATE * odd, STATE * odd * odd };
    const ptrdiff_t change_step[3] = { 1, UNKNOWNS * odd, UNKNOWNS * odd * odd };
    memcpy(cfd->step, step, sizeof step);
    memcpy(cfd->change_step, change_step, sizeof change_step);
    // One plane more on either side: the fourth difference reads it with a weight of zero.
    cfd->state = report_memory("the state", (size_t)(step[2] * (n + 2)), sizeof(double));
    cfd->change = report_memory("the change", (size_t)(change_step[2] * n), sizeof(double));
    cfd->force = report_memory("the source term", (size_t)(change_step[2] * n), sizeof(double));
    cfd->fourth = report_memory("the weights", 5 * (size_t)n, sizeof(double));
    OUTER_ARRAY(cfd->state, (size_t)(step[2] * (n + 2)) * sizeof(double));
    OUTER_ARRAY(cfd->change, (size_t)(change_step[2] * n) * sizeof(double));
    OUTER_ARRAY(cfd->force, (size_t)(change_step[2] * n) * sizeof(double));
    fourth_weights(cfd);
    memset(cfd->state, 0, (size_t)step[2] * sizeof(double));
    cfd->state += step[2];
    memset(cfd->state + n * step[2], 0, (size_t)step[2] * sizeof(double));
#pragma omp parallel for schedule(static)
    for (int k = 0; k < n; k++) {
        memset(cfd_state(cfd, 0, k), 0, (size_t)step[2] * sizeof(double));
        memset(cfd_change(cfd, 0, k), 0, (size_t)change_step[2] * sizeof(double));
        memset(cfd_force(cfd, 0, k), 0, (size_t)change_step[2] * sizeof(double));
        for (int j = 0; j < n; j++) {
            double *q = cfd_state(cfd, j, k);
            for (int i = 0; i < n; i++) {
                double u[UNKNOWNS];
                exact(i * cfd->h, j * cfd->h, k * cfd->h, u);
                for (int m = 0; m < UNKNOWNS; m++)
                    q[m * cfd->row + i] = u[m];
            }
        }
    }
    // H = -L(exact).
    cfd_rhs(cfd, -1.0);
    memcpy(cfd->force, cfd->change, (size_t)(change_step[2] * n) * sizeof(double));
}

void cfd_initialise(struct cfd *cfd)
{
    const int n = cfd->n;
    const double h = cfd->h;
#pragma omp parallel for schedule(static)
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < n; j++) {
            double *q = cfd_state(cfd, j, k);
            for (int i = 0; i < n; i++) {
                double u[UNKNOWNS], face[3][2][UNKNOWNS];
                const double at[3] = { i * h, j * h, k * h };
                bool boundary = i == 0 || i == n - 1 || j == 0 || j == n - 1 || k == 0
                                || k == n - 1;
                if (boundary) {
                    exact(at[0], at[1], at[2], u);
                } else {
                    for (int end = 0; end < 2; end++) {
                        exact(end, at[1], at[2], face[0][end]);
                        exact(at[0], end, at[2], face[1][end]);
                        exact(at[0], at[1], end, face[2][end]);
                    }
                    for (int m = 0; m < UNKNOWNS; m++) {
                        double p[3];
                        for (int d = 0; d < 3; d++)
                            p[d] = (1 - at[d]) * face[d][0][m] + at[d] * face[d][1][m];
                        u[m] = p[0] + p[1] + p[2] - p[0] * p[1] - p[1] * p[2] - p[2] * p[0]
                               + p[0] * p[1] * p[2];
                    }
                }
                for (int m = 0; m < UNKNOWNS; m++)
                    q[m * cfd->row + i] = u[m];
            }
        }
    }
}

// What the flows need of a row's unknowns.
static void derive(double *restrict q, ptrdiff_t row, int n)
{
    double *restrict inverse = q + INVERSE * row, *restrict kinetic = q + KINETIC * row;
    double *restrict velocity = q + VELOCITY * row, *restrict half = q + HALF_SQUARE * row;
    double *restrict sound = q + SOUND * row;
    const double *restrict momentum = q + MOMENTUM * row;
    for (int i = 0; i < n; i++) {
        double r = 1.0 / q[i];
        double mx = momentum[i], my = momentum[row + i], mz = momentum[2 * row + i];
        double square = 0.5 * (mx * mx + my * my + mz * mz) * r;
        inverse[i] = r;
        velocity[i] = mx * r;
        velocity[row + i] = my * r;
        velocity[2 * row + i] = mz * r;
        kinetic[i] = square;
        half[i] = square * r;
        sound[i] = sqrt(CFD_C1 * CFD_C2 * r * (q[ENERGY * row + i] - square));
    }
}

// Adds the flows of one direction to the row `r` of the right-hand side: central differences
// of first order for E (F, G), of second order for T (V, W). `s` leads from a point to the
// next one in this direction.
static inline __attribute__((always_inline)) void
flow(const double *restrict q, double *restrict r, ptrdiff_t s, ptrdiff_t row, int n, int direction,
     double h)
{
    const double first = 1.0 / (2.0 * h);
    const double viscous = CFD_C34 / (h * h), artificial = cfd_second[direction] / (h * h);
    const double *velocity = q + VELOCITY * row, *along = velocity + direction * row;
    const double *kinetic = q + KINETIC * row, *energy = q + ENERGY * row;
    const double *half = q + HALF_SQUARE * row, *inverse = q + INVERSE * row;
    for (int i = 1; i < n - 1; i++) {
        const double back = along[i - s], here = along[i], front = along[i + s];
        const double *m = q + (MOMENTUM + direction) * row;
        r[i] += artificial * (q[i + s] - 2 * q[i] + q[i - s]) - first * (m[i + s] - m[i - s]);
#pragma GCC unroll 3
        for (int d = 0; d < 3; d++) {
            const double *p = q + (MOMENTUM + d) * row, *v = velocity + d * row;
            double change = artificial * (p[i + s] - 2 * p[i] + p[i - s])
                            + (d == direction ? 4.0 / 3.0 : 1.0) * viscous
                                  * (v[i + s] - 2 * v[i] + v[i - s]);
            double carried = p[i + s] * front - p[i - s] * back;
            if (d == direction)
                carried += CFD_C2
                           * (energy[i + s] - kinetic[i + s] - energy[i - s] + kinetic[i - s]);
            r[(MOMENTUM + d) * row + i] += change - first * carried;
        }
        double e_back = energy[i - s], e = energy[i], e_front = energy[i + s];
        r[ENERGY * row + i] +=
            artificial * (e_front - 2 * e + e_back)
            + viscous
                  * ((1 - CFD_C1 * CFD_C5) * (half[i + s] - 2 * half[i] + half[i - s])
                     + 1.0 / 6.0 * (front * front - 2 * here * here + back * back)
                     + CFD_C1 * CFD_C5
                           * (e_front * inverse[i + s] - 2 * e * inverse[i]
                              + e_back * inverse[i - s]))
            - first
                  * ((CFD_C1 * e_front - CFD_C2 * kinetic[i + s]) * front
                     - (CFD_C1 * e_back - CFD_C2 * kinetic[i - s]) * back);
    }
}

// Subtracts the fourth differences in all directions, then scales.
static void dissipate(const struct cfd *cfd, const double *restrict q, double *restrict r, int j,
                      int k, double scale)
{
    const ptrdiff_t y = cfd->step[1], z = cfd->step[2];
    const int n = cfd->n;
    const double *restrict w = cfd->fourth;
    double wy[5], wz[5];
    for (int d = 0; d < 5; d++) {
        wy[d] = w[d * n + j];
        wz[d] = w[d * n + k];
    }
    for (int m = 0; m < UNKNOWNS; m++) {
        const double *restrict u = q + m * cfd->row;
        double *restrict to = r + m * cfd->row;
        for (int i = 1; i < n - 1; i++)
            to[i] = scale
                    * (to[i]
                       - (w[i] * u[i - 2] + w[n + i] * u[i - 1] + w[2 * n + i] * u[i]
                          + w[3 * n + i] * u[i + 1] + w[4 * n + i] * u[i + 2])
                       - (wy[0] * u[i - 2 * y] + wy[1] * u[i - y] + wy[2] * u[i]
                          + wy[3] * u[i + y] + wy[4] * u[i + 2 * y])
                       - (wz[0] * u[i - 2 * z] + wz[1] * u[i - z] + wz[2] * u[i]
                          + wz[3] * u[i + z] + wz[4] * u[i + 2 * z]));
    }
}

// Planes first to last of the state, as far as they exist.
static void tell_state(const struct cfd *cfd, int first, int last)
{
    size_t plane = (size_t)cfd->step[2] * sizeof(double);
    first = first < 0 ? 0 : first;
    last = last < cfd->n ? last : cfd->n - 1;
    OUTER_TOUCH(cfd_state(cfd, 0, first), plane, plane, (size_t)(last - first + 1));
}

// What `cfd_rhs` touches.
static void tell_rhs(const struct cfd *cfd)
{
    const int n = cfd->n;
    const size_t plane = (size_t)cfd->change_step[2] * sizeof(double);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int k = 0; k < n; k++)
            tell_state(cfd, k, k);
#pragma omp for schedule(static)
        for (int k = 1; k < n - 1; k++) {
            tell_state(cfd, k - 2, k + 2);
            OUTER_TOUCH(cfd_force(cfd, 0, k), plane, plane, 1);
            OUTER_TOUCH(cfd_change(cfd, 0, k), plane, plane, 1);
        }
    }
}

void cfd_tell_solve(const struct cfd *cfd, int direction)
{
    if (!OUTER_ASKS())
        return;
    // The number of a line's loop is its plane, or its row in all planes.
    const int axis = direction == 2 ? 1 : 2;
    const size_t count = direction == 2 ? (size_t)cfd->n : 1;
    const size_t plane = (size_t)cfd->step[2] * sizeof(double);
    const size_t change_plane = (size_t)cfd->change_step[2] * sizeof(double);
    const size_t piece = (size_t)cfd->step[axis] * sizeof(double);
    const size_t change_piece = (size_t)cfd->change_step[axis] * sizeof(double);
#pragma omp parallel for schedule(static)
    for (int b = 1; b < cfd->n - 1; b++) {
        OUTER_TOUCH(cfd->state + b * cfd->step[axis], plane, piece, count);
        OUTER_TOUCH(cfd->change + b * cfd->change_step[axis], change_plane, change_piece, count);
    }
}

void cfd_rhs(struct cfd *cfd, double scale)
{
    const int n = cfd->n;
    if (OUTER_ASKS())
        tell_rhs(cfd);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                derive(cfd_state(cfd, j, k), cfd->row, n);
#pragma omp for schedule(static)
        for (int k = 1; k < n - 1; k++)
            for (int j = 1; j < n - 1; j++) {
                const double *q = cfd_state(cfd, j, k);
                double *r = cfd_change(cfd, j, k);
                memcpy(r, cfd_force(cfd, j, k), (size_t)(UNKNOWNS * cfd->row) * sizeof(double));
                flow(q, r, 1, cfd->row, n, 0, cfd->h);
                flow(q, r, cfd->step[1], cfd->row, n, 1, cfd->h);
                flow(q, r, cfd->step[2], cfd->row, n, 2, cfd->h);
                dissipate(cfd, q, r, j, k, scale);
            }
    }
}

// What `cfd_add` touches.
static void tell_add(const struct cfd *cfd)
{
    const size_t plane = (size_t)cfd->change_step[2] * sizeof(double);
#pragma omp parallel for schedule(static)
    for (int k = 1; k < cfd->n - 1; k++) {
        tell_state(cfd, k, k);
        OUTER_TOUCH(cfd_change(cfd, 0, k), plane, plane, 1);
    }
}

void cfd_add(struct cfd *cfd, double scale)
{
    const int n = cfd->n;
    if (OUTER_ASKS())
        tell_add(cfd);
#pragma omp parallel for schedule(static)
    for (int k = 1; k < n - 1; k++)
        for (int j = 1; j < n - 1; j++) {
            double *restrict u = cfd_state(cfd, j, k);
            const double *restrict r = cfd_change(cfd, j, k);
            for (int m = 0; m < UNKNOWNS; m++)
                for (int i = 1; i < n - 1; i++)
                    u[m * cfd->row + i] += scale * r[m * cfd->row + i];
        }
}

static void root_mean(const struct cfd *cfd, double norm[UNKNOWNS])
{
    double points = pow(cfd->n - 2, 3);
    for (int m = 0; m < UNKNOWNS; m++)
        norm[m] = sqrt(norm[m] / points);
}

void cfd_change_norm(const struct cfd *cfd, double norm[UNKNOWNS])
{
    const int n = cfd->n;
    double sum[UNKNOWNS] = { 0 };
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int k = 1; k < n - 1; k++)
        for (int j = 1; j < n - 1; j++) {
            const double *r = cfd_change(cfd, j, k);
            for (int m = 0; m < UNKNOWNS; m++)
                for (int i = 1; i < n - 1; i++)
                    sum[m] += r[m * cfd->row + i] * r[m * cfd->row + i];
        }
    memcpy(norm, sum, sizeof sum);
    root_mean(cfd, norm);
}

void cfd_error_norm(const struct cfd *cfd, double norm[UNKNOWNS])
{
    const int n = cfd->n;
    double sum[UNKNOWNS] = { 0 };
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int k = 1; k < n - 1; k++)
        for (int j = 1; j < n - 1; j++) {
            const double *q = cfd_state(cfd, j, k);
            for (int i = 1; i < n - 1; i++) {
                double u[UNKNOWNS];
                exact(i * cfd->h, j * cfd->h, k * cfd->h, u);
                for (int m = 0; m < UNKNOWNS; m++) {
                    double difference = q[m * cfd->row + i] - u[m];
                    sum[m] += difference * difference;
                }
            }
        }
    memcpy(norm, sum, sizeof sum);
    root_mean(cfd, norm);
}

void cfd_verify(const struct cfd *cfd, struct checks *checks, double scale,
                const double residual[UNKNOWNS], const double error[UNKNOWNS])
{
    double norm[UNKNOWNS];
    char name[32];
    cfd_change_norm(cfd, norm);
    for (int m = 0; m < UNKNOWNS; m++) {
        snprintf(name, sizeof name, "residual %d", m + 1);
        check_close(checks, name, norm[m] / scale, residual[m], CFD_TOLERANCE);
    }
    cfd_error_norm(cfd, norm);
    for (int m = 0; m < UNKNOWNS; m++) {
        snprintf(name, sizeof name, "error %d", m + 1);
        check_close(checks, name, norm[m], error[m], CFD_TOLERANCE);
    }
}
