// SP: the implicit time steps of the flow problem by three scalar pentadiagonal factors.
//
// The Jacobian matrix of the flow in each direction is diagonal in its eigenvectors; its
// eigenvalues are the velocity, three times, and the velocity plus and minus the speed of
// sound. With the fourth-order dissipation on the implicit side each line of points is then five
// scalar systems with five diagonals, of three kinds. Between the directions the changes go
// from one set of eigenvectors to the next.
//
// WIDTH lines are solved side by side, one in each element of a short vector.
#include "cfd.h"
#include "common/outer.h"

#include <math.h>

#define WIDTH 4
#define KINDS 3 // velocity, velocity + sound, velocity - sound

static const struct sp_class {
    int n;
    double dt;
    int steps;
    double residual[UNKNOWNS], error[UNKNOWNS];
} classes[4] = {
    { 12, 0.015, 100,
      { 2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02,
        1.5840557224455615e-02, 3.4849040609362460e-02 },
      { 2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05,
        1.5750704994480102e-05, 3.4177666183390531e-05 } },
    { 36, 0.0015, 400,
      { 0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03,
        0.3143611161242e-02 },
      { 0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04,
        0.1212845639773e-03 } },
    { 64, 0.0015, 400,
      { 2.4799822399300195e+00, 1.1276337964368832e+00, 1.5028977888770491e+00,
        1.4217816211695179e+00, 2.1292113035138280e+00 },
      { 1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05,
        4.7671093939528255e-05, 1.3621613399213001e-04 } },
    { 102, 0.001, 400,
      { 0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02,
        0.5643482272596e+02 },
      { 0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02,
        0.1847456263981e-01 } },
};

// From the unknowns' changes to those along the eigenvectors of the x direction.
static inline __attribute__((always_inline)) void
to_first(const double *q, ptrdiff_t row, double r[UNKNOWNS])
{
    const double root = sqrt(0.5);
    const double inverse = q[INVERSE * row], sound = q[SOUND * row];
    const double u = q[VELOCITY * row], v = q[(VELOCITY + 1) * row], w = q[(VELOCITY + 2) * row];
    // The change of pressure over the square of sound; of the velocity; of sound's two waves.
    const double pressure = CFD_C2 / (sound * sound)
                            * (q[HALF_SQUARE * row] * r[0] - u * r[1] - v * r[2] - w * r[3] + r[4]);
    const double moved = root * inverse * (u * r[0] - r[1]);
    const double wave = root * inverse * sound * pressure;
    const double density = r[0];
    r[0] = density - pressure;
    r[1] = -inverse * (w * density - r[3]);
    const double third = inverse * (v * density - r[2]);
    r[2] = third;
    r[3] = wave - moved;
    r[4] = wave + moved;
}

// From the eigenvectors of the x direction to those of y.
static inline __attribute__((always_inline)) void to_second(double r[UNKNOWNS])
{
    const double root = sqrt(0.5);
    const double a = root * r[2], b = 0.5 * (r[3] + r[4]), first = r[0];
    r[0] = -r[1];
    r[1] = first;
    r[2] = root * (r[3] - r[4]);
    r[3] = b - a;
    r[4] = b + a;
}

// From y to z.
static inline __attribute__((always_inline)) void to_third(double r[UNKNOWNS])
{
    const double root = sqrt(0.5);
    const double a = root * r[0], b = 0.5 * (r[3] + r[4]), second = r[1];
    r[0] = root * (r[3] - r[4]);
    r[1] = -r[2];
    r[2] = second;
    r[3] = b - a;
    r[4] = b + a;
}

// From z back to the unknowns.
static inline __attribute__((always_inline)) void
to_unknowns(const double *q, ptrdiff_t row, double r[UNKNOWNS])
{
    const double root = sqrt(0.5);
    const double density = q[0], sound = q[SOUND * row];
    const double u = q[VELOCITY * row], v = q[(VELOCITY + 1) * row], w = q[(VELOCITY + 2) * row];
    const double wave = root * density / sound * (r[3] + r[4]);
    const double moved = root * density * (r[3] - r[4]);
    const double sum = r[2] + wave, first = r[0], second = r[1];
    r[0] = sum;
    r[1] = u * sum - density * second;
    r[2] = v * sum + density * first;
    r[3] = w * sum + moved;
    r[4] = density * (v * first - u * second) + q[HALF_SQUARE * row] * sum
           + sound * sound / CFD_C2 * wave + w * moved;
}

// What the lines hold: a point's right-hand sides, then, eliminated, what multiplies the two
// changes after it, for each kind of system.
struct point {
    double right[UNKNOWNS][WIDTH];
    double one[KINDS][WIDTH], two[KINDS][WIDTH];
    // The eigenvalues and the implicit second-order dissipation, times the time step.
    double velocity[WIDTH], sound[WIDTH], spread[WIDTH];
};

// `width` lines from a state point and a change point: `next` leads from line to line.
static inline __attribute__((always_inline)) void
solve(const struct cfd *cfd, int direction, const double *q, double *r, ptrdiff_t next,
      ptrdiff_t change_next, int width, struct point *line)
{
    const int n = cfd->n;
    const ptrdiff_t row = cfd->row;
    const ptrdiff_t step = cfd->step[direction], change_step = cfd->change_step[direction];
    const double t1 = cfd->dt / (cfd->h * cfd->h), t2 = cfd->dt / (2 * cfd->h);
    for (int m = 0; m < n; m++)
        for (int w = 0; w < width; w++) {
            const double *at = q + m * step + w * next;
            const double *from = r + m * change_step + w * change_next;
            struct point *p = &line[m];
            double change[UNKNOWNS];
            for (int a = 0; a < UNKNOWNS; a++)
                change[a] = from[a * row];
            if (direction == 0)
                to_first(at, row, change);
            for (int a = 0; a < UNKNOWNS; a++)
                p->right[a][w] = change[a];
            p->velocity[w] = t2 * at[(VELOCITY + direction) * row];
            p->sound[w] = t2 * at[SOUND * row];
            // The largest coefficient of the viscous flow: that of energy, 1.96 against 4/3.
            p->spread[w] = t1 * (cfd_second[direction] + CFD_C1345 * at[INVERSE * row]);
        }
    // The changes on the boundary are zero; so are those that do not exist.
    static const struct point none = { 0 };
    line[0] = none;
    const double *weights = cfd->fourth;
    for (int m = 1; m < n - 1; m++) {
        double far = cfd->dt * weights[m], near = cfd->dt * weights[n + m];
        double middle = cfd->dt * weights[2 * n + m];
        double near_after = cfd->dt * weights[3 * n + m], far_after = cfd->dt * weights[4 * n + m];
        struct point *p = &line[m];
        const struct point *after = p + 1, *one = p - 1, *two = m > 1 ? p - 2 : &none;
#pragma GCC unroll 3
        for (int kind = 0; kind < KINDS; kind++) {
            const double sign = kind == 0 ? 0 : kind == 1 ? 1 : -1;
            for (int w = 0; w < width; w++) {
                // On the boundary row the eigenvalues count for nothing: the change is zero.
                double before = -(one->velocity[w] + sign * one->sound[w]) - one->spread[w] + near;
                double own = 1 + 2 * p->spread[w] + middle;
                double next1 = after->velocity[w] + sign * after->sound[w] - after->spread[w]
                               + near_after;
                before -= far * two->one[kind][w];
                own -= far * two->two[kind][w] + before * one->one[kind][w];
                double pivot = 1 / own;
                p->one[kind][w] = pivot * (next1 - before * one->two[kind][w]);
                p->two[kind][w] = pivot * far_after;
#pragma GCC unroll 5
                for (int a = 0; a < UNKNOWNS; a++)
                    if (kind == (a < 3 ? 0 : a - 2))
                        p->right[a][w] = pivot
                                         * (p->right[a][w] - far * two->right[a][w]
                                            - before * one->right[a][w]);
            }
        }
    }
    for (int m = n - 2; m > 0; m--) {
        struct point *p = &line[m];
        if (m < n - 2)
#pragma GCC unroll 5
            for (int a = 0; a < UNKNOWNS; a++) {
                const int kind = a < 3 ? 0 : a - 2;
                for (int w = 0; w < width; w++)
                    p->right[a][w] -= p->one[kind][w] * p[1].right[a][w]
                                      + (m < n - 3 ? p->two[kind][w] * p[2].right[a][w] : 0);
            }
        for (int w = 0; w < width; w++) {
            const double *at = q + m * step + w * next;
            double *to = r + m * change_step + w * change_next, change[UNKNOWNS];
            for (int a = 0; a < UNKNOWNS; a++)
                change[a] = p->right[a][w];
            if (direction == 0)
                to_second(change);
            else if (direction == 1)
                to_third(change);
            else
                to_unknowns(at, row, change);
            for (int a = 0; a < UNKNOWNS; a++)
                to[a * row] = change[a];
        }
    }
}

// All lines of one direction, in parallel.
static inline __attribute__((always_inline)) void
solve_all(const struct cfd *cfd, int direction)
{
    const int n = cfd->n;
    const int along_a = direction == 0 ? 1 : 0, along_b = direction == 2 ? 1 : 2;
    const ptrdiff_t next = direction == 0 ? cfd->step[1] : 1;
    const ptrdiff_t change_next = direction == 0 ? cfd->change_step[1] : 1;
    cfd_tell_solve(cfd, direction);
#pragma omp parallel
    {
        struct point line[n];
#pragma omp for schedule(static)
        for (int b = 1; b < n - 1; b++)
            for (int a = 1; a < n - 1; a += WIDTH) {
                const double *q = cfd->state + a * cfd->step[along_a] + b * cfd->step[along_b];
                double *r = cfd->change + a * cfd->change_step[along_a]
                            + b * cfd->change_step[along_b];
                if (a + WIDTH <= n - 1)
                    solve(cfd, direction, q, r, next, change_next, WIDTH, line);
                else
                    solve(cfd, direction, q, r, next, change_next, n - 1 - a, line);
            }
    }
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct sp_class *class = &classes[options_row(&options)];
    const double n = class->n;
    struct cfd cfd;
    cfd_open(&cfd, class->n, class->dt);
    struct report report = report_begin(
        "sp", &options, class->steps,
        class->steps * (881.174 * n * n * n - 4683.91 * n * n + 11484.5 * n - 19272.4));
    while (report_again(&report)) {
        cfd_initialise(&cfd);
        report_start(&report);
        for (int step = 0; step < class->steps; step++) {
            OUTER_BEGIN();
            cfd_rhs(&cfd, class->dt);
            OUTER_PHASE();
            solve_all(&cfd, 0);
            OUTER_PHASE();
            solve_all(&cfd, 1);
            OUTER_PHASE();
            solve_all(&cfd, 2);
            OUTER_PHASE();
            cfd_add(&cfd, 1.0);
            OUTER_END();
        }
        report_stop(&report);
        cfd_rhs(&cfd, class->dt);
        cfd_verify(&cfd, &report.checks, class->dt, class->residual, class->error);
    }
    return report_end(&report);
}
