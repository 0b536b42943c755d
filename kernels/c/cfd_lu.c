// Rows of LU's sweeps, its surface integral, its classes, and its time steps.
#include "cfd_lu.h"

#define OMEGA 1.2

static const struct lu_class {
    int n;
    double dt;
    int steps;
    double residual[UNKNOWNS], error[UNKNOWNS], surface;
} classes[4] = {
    { 12, 0.5, 50,
      { 1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03,
        1.5029584435994323e-03, 3.4264073155896461e-02 },
      { 6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05,
        5.8474222595157350e-05, 1.3103347914111294e-03 },
      7.8418928865937083e+00 },
    { 33, 1.5e-3, 300,
      { 0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01,
        0.2826799444189e+02 },
      { 0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01,
        0.1084277417792e+01 },
      0.1161399311023e+02 },
    { 64, 2.0, 250,
      { 7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02,
        1.7845301160418537e+02, 1.8384760349464247e+03 },
      { 2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00,
        6.7139225687777051e+00, 7.0715315688392578e+01 },
      2.6030925604886277e+01 },
    { 102, 2.0, 250,
      { 3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02,
        7.7812774739425265e+02, 7.3087969592545314e+03 },
      { 1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01,
        2.5905394567832939e+01, 2.6054907504857413e+02 },
      4.7887162703308227e+01 },
};

// A point's block towards a neighbour in one direction, times the neighbour's change `w`: the
// Jacobian matrices at the neighbour, A of the flow and N of the viscous flow, are applied
// without being formed. `side` is -1 for a neighbour before the point, 1 for one after it.
static inline __attribute__((always_inline)) void
neighbour(const struct cfd *cfd, const double *q, int direction, int side,
          const double w[UNKNOWNS], double product[UNKNOWNS])
{
    const ptrdiff_t row = cfd->row;
    const double t1 = cfd->dt / (cfd->h * cfd->h), t2 = side * cfd->dt / (2 * cfd->h);
    const double inverse = q[INVERSE * row], half = q[HALF_SQUARE * row];
    const double energy = q[ENERGY * row] * inverse;
    double v[3], difference[3], inside = 0;
    for (int d = 0; d < 3; d++) {
        v[d] = q[(VELOCITY + d) * row];
        difference[d] = w[1 + d] - v[d] * w[0];
        inside += v[d] * w[1 + d];
    }
    const double along = v[direction], w_along = w[1 + direction];
    const double n = t1 * inverse, second = t1 * cfd_second[direction];
    double viscous = CFD_C1345 * (w[4] - energy * w[0]);
    product[0] = t2 * w_along - second * w[0];
    for (int d = 0; d < 3; d++) {
        const double c = d == direction ? 4.0 / 3.0 * CFD_C34 : CFD_C34;
        double carried = v[d] * (w_along - along * w[0]) + along * w[1 + d];
        if (d == direction)
            carried += CFD_C2 * (half * w[0] - inside + w[4]);
        viscous += (c - CFD_C1345) * v[d] * difference[d];
        product[1 + d] = t2 * carried - n * c * difference[d] - second * w[1 + d];
    }
    const double carried = along * ((2 * CFD_C2 * half - CFD_C1 * energy) * w[0] - CFD_C2 * inside
                                    + CFD_C1 * w[4])
                           + (CFD_C1 * energy - CFD_C2 * half) * w_along;
    product[4] = t2 * carried - n * viscous - second * w[4];
}

// One row of a sweep. First what comes from the rows beside it, for all points, then along the
// row, where each point waits for the one before it. D is lower triangular: the density's row
// has the diagonal only, a momentum's also the density's column, the energy's all.
static inline __attribute__((always_inline)) void
sweep_row(const struct cfd *cfd, int j, int k, int side)
{
    const int n = cfd->n;
    const ptrdiff_t row = cfd->row;
    const double *q = cfd_state(cfd, j, k);
    double *r = cfd_change(cfd, j, k);
    double right[UNKNOWNS][n], of_momentum[n], of_energy[n];
    const double twice = 2 * cfd->dt / (cfd->h * cfd->h);
    const double artificial = 1 + twice * (cfd_second[0] + cfd_second[1] + cfd_second[2]);
    const double of_density = 1 / artificial;
    const double c = twice * 10.0 / 3.0 * CFD_C34; // 4/3 in one direction, 1 in two
    const double c_energy = twice * 3 * CFD_C1345;
    const double *qy = q + side * cfd->step[1], *qz = q + side * cfd->step[2];
    const double *ry = r + side * cfd->change_step[1], *rz = r + side * cfd->change_step[2];
    for (int i = 1; i < n - 1; i++) {
        double wy[UNKNOWNS], wz[UNKNOWNS], py[UNKNOWNS], pz[UNKNOWNS];
        for (int m = 0; m < UNKNOWNS; m++) {
            wy[m] = ry[m * row + i];
            wz[m] = rz[m * row + i];
        }
        neighbour(cfd, qy + i, 1, side, wy, py);
        neighbour(cfd, qz + i, 2, side, wz, pz);
        for (int m = 0; m < UNKNOWNS; m++)
            right[m][i] = (side < 0 ? r[m * row + i] : 0) + side * OMEGA * (py[m] + pz[m]);
        of_momentum[i] = 1 / (artificial + c * q[INVERSE * row + i]);
        of_energy[i] = 1 / (artificial + c_energy * q[INVERSE * row + i]);
    }
    double w[UNKNOWNS] = { 0 }; // the change at the point before; zero on the boundary
    for (int s = 1; s < n - 1; s++) {
        const int i = side < 0 ? s : n - 1 - s;
        const double inverse = q[INVERSE * row + i];
        double px[UNKNOWNS], x[UNKNOWNS];
        neighbour(cfd, q + i + side, 0, side, w, px);
        x[0] = of_density * (right[0][i] + side * OMEGA * px[0]);
        double rest = c_energy * inverse * q[ENERGY * row + i] * inverse * x[0];
        for (int d = 0; d < 3; d++) {
            const double v = q[(VELOCITY + d) * row + i];
            x[1 + d] = of_momentum[i]
                       * (right[1 + d][i] + side * OMEGA * px[1 + d] + c * inverse * v * x[0]);
            rest -= (c - c_energy) * inverse * v * (x[1 + d] - v * x[0]);
        }
        x[4] = of_energy[i] * (right[4][i] + side * OMEGA * px[4] + rest);
        for (int m = 0; m < UNKNOWNS; m++) {
            w[m] = side < 0 ? x[m] : r[m * row + i] - x[m];
            r[m * row + i] = w[m];
        }
    }
}

void cfd_lu_lower(const struct cfd *cfd, int j, int k)
{
    sweep_row(cfd, j, k, -1);
}

void cfd_lu_upper(const struct cfd *cfd, int j, int k)
{
    sweep_row(cfd, j, k, 1);
}

// The pressure at a point, by the numbers of the three directions.
static double pressure(const struct cfd *cfd, const int at[3])
{
    const double *q = cfd_state(cfd, at[1], at[2]) + at[0];
    double square = 0;
    for (int d = 0; d < 3; d++)
        square += q[(MOMENTUM + d) * cfd->row] * q[(MOMENTUM + d) * cfd->row];
    return CFD_C2 * (q[ENERGY * cfd->row] - 0.5 * square / q[0]);
}

// The integral of the pressure over the surface of the box that the specification gives, by
// the trapezoidal rule.
static double surface_integral(const struct cfd *cfd)
{
    const int n = cfd->n;
    const int first[3] = { 1, 1, 2 }, last[3] = { n - 2, n - 3, n - 2 };
    double sum = 0;
    for (int normal = 0; normal < 3; normal++) {
        const int a = (normal + 1) % 3, b = (normal + 2) % 3;
        for (int end = 0; end < 2; end++)
            for (int x = first[a]; x < last[a]; x++)
                for (int y = first[b]; y < last[b]; y++)
                    for (int corner = 0; corner < 4; corner++) {
                        int at[3];
                        at[normal] = end == 0 ? first[normal] : last[normal];
                        at[a] = x + corner % 2;
                        at[b] = y + corner / 2;
                        sum += pressure(cfd, at);
                    }
    }
    return 0.25 * cfd->h * cfd->h * sum;
}

int cfd_lu_run(const char *kernel, int argc, char **argv, const struct option_extra *extra,
               cfd_lu_sweep *lower, cfd_lu_sweep *upper)
{
    struct options options = options_read(argc, argv, extra);
    const struct lu_class *class = &classes[options_row(&options)];
    const double n = class->n;
    struct cfd cfd;
    cfd_open(&cfd, class->n, class->dt);
    struct report report = report_begin(
        kernel, &options, class->steps,
        class->steps * (1984.77 * n * n * n - 10923.3 * n * n + 27770.9 * n - 144010.0));
    while (report_again(&report)) {
        cfd_initialise(&cfd);
        cfd_rhs(&cfd, class->dt);
        report_start(&report);
        for (int step = 0; step < class->steps; step++) {
            lower(&cfd);
            upper(&cfd);
            cfd_add(&cfd, 1 / (OMEGA * (2 - OMEGA)));
            cfd_rhs(&cfd, class->dt);
        }
        report_stop(&report);
        cfd_verify(&cfd, &report.checks, class->dt, class->residual, class->error);
        check_close(&report.checks, "surface integral", surface_integral(&cfd), class->surface,
                    CFD_TOLERANCE);
    }
    return report_end(&report);
}
