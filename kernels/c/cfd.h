// The flow problem that BT, SP and LU solve: the three-dimensional compressible Navier-Stokes
// equations on the unit cube, with a source term for which a polynomial is the exact solution.
//
//     dU/dt = dE/dx + dF/dy + dG/dz + dT/dx + dV/dy + dW/dz + H = L(U) + H
//
// U holds density, three momenta and energy. E, F, G are the flows, T, V, W the viscous ones
// and the artificial second-order dissipation; a fourth-order dissipation is subtracted. H is
// chosen so that the steady state is the exact solution: H = -L(exact).
//
// A row is a line of points in x. Each row of the state holds STATE arrays, one a quantity,
// each over x: a loop over x reads every quantity contiguously, and what belongs to one row
// lies together. Rows follow in y, planes of rows in z.
#ifndef KERNELS_CFD_H
#define KERNELS_CFD_H

#include "common/report.h"

#include <stddef.h>

// The quantities of a state row: the five unknowns, then what `cfd_rhs` derives from them.
enum {
    DENSITY,
    MOMENTUM, // three, by direction
    ENERGY = 4,
    INVERSE,      // 1 / density
    VELOCITY,     // three, by direction
    KINETIC = 9,  // half the square of the momentum over the density
    HALF_SQUARE,  // half the square of the velocity
    SOUND,        // the speed of sound
    STATE,
    UNKNOWNS = 5,
};

// The constants k1 to k5 of the equations, as the papers on the benchmarks name them.
#define CFD_C1 1.4
#define CFD_C2 0.4
#define CFD_C3 0.1
#define CFD_C4 1.0
#define CFD_C5 1.4
#define CFD_C34 (CFD_C3 * CFD_C4)
#define CFD_C1345 (CFD_C1 * CFD_C34 * CFD_C5)

// The artificial dissipation of second order by direction, and of fourth order: a quarter of
// the largest of those.
static const double cfd_second[3] = { 0.75, 0.75, 1.0 };
#define CFD_FOURTH 0.25

struct cfd {
    int n;      // points in each direction, with the boundary
    double dt;  // the time step
    double h;   // the distance of two points
    ptrdiff_t row;           // from one quantity to the next: n or n + 1, odd
    ptrdiff_t step[3];       // state: from a point to the next one in x, y, z
    ptrdiff_t change_step[3]; // the same in `change` and `force`
    double *state;  // STATE quantities a row
    double *change; // UNKNOWNS a row: the right-hand side, then the change of a time step
    double *force;  // UNKNOWNS a row: H
    double *fourth; // the fourth difference's five weights by position: five arrays of n
};

// The first element of the row (j, k).
static inline double *cfd_state(const struct cfd *cfd, int j, int k)
{
    return cfd->state + j * cfd->step[1] + k * cfd->step[2];
}

static inline double *cfd_change(const struct cfd *cfd, int j, int k)
{
    return cfd->change + j * cfd->change_step[1] + k * cfd->change_step[2];
}

static inline double *cfd_force(const struct cfd *cfd, int j, int k)
{
    return cfd->force + j * cfd->change_step[1] + k * cfd->change_step[2];
}

// Allocates the grid, touches it first in the loops' distribution, and computes H.
void cfd_open(struct cfd *cfd, int n, double dt);

// Sets the state: the exact solution on the boundary, its interpolation inside.
void cfd_initialise(struct cfd *cfd);

// change = scale (L(state) + H) at the inner points. Derives the state's other quantities.
void cfd_rhs(struct cfd *cfd, double scale);

// Says what the lines of a direction touch, plane by plane or, for z, row by row: solutions along
// them begin with it.
void cfd_tell_solve(const struct cfd *cfd, int direction);

// state += scale change.
void cfd_add(struct cfd *cfd, double scale);

// The root mean squares over the inner points of the change, and of the difference between the
// state and the exact solution.
void cfd_change_norm(const struct cfd *cfd, double norm[UNKNOWNS]);
void cfd_error_norm(const struct cfd *cfd, double norm[UNKNOWNS]);

// Checks the norms against the published ones, to one part in 10^8 as the benchmarks demand:
// of L(state) + H, for which `change` is scaled by `scale`, and of the error.
void cfd_verify(const struct cfd *cfd, struct checks *checks, double scale,
                const double residual[UNKNOWNS], const double error[UNKNOWNS]);

#define CFD_TOLERANCE 1e-8

#endif
