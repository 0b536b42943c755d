// The factor of the approximate factorisation in one direction, as BT solves it: a block
// tridiagonal system a line of points, with blocks of 5 x 5.
//
//     [I - dt (dA/dx + d2N/dx2)] change = change
//
// A is the Jacobian matrix of the flow, N of the viscous flow with the artificial second-order
// dissipation; on the boundary the change is zero. Solved by elimination from the first point to
// the last one, then substitution backwards; either may be done in pieces of the line, in order.
//
// Lines are worked on in pairs, one in each half of a vector of two numbers.
#ifndef KERNELS_CFD_BLOCK_H
#define KERNELS_CFD_BLOCK_H

#include "cfd.h"

typedef double cfd_pair __attribute__((vector_size(16)));

// What elimination leaves of a point's block row for the substitution: change(m) is the
// eliminated right-hand side minus this times change(m + 1).
typedef cfd_pair cfd_block[UNKNOWNS][UNKNOWNS];

// Two lines in one direction. The second one may be the first one again: then nothing is done
// for it.
struct cfd_lines {
    const double *state;  // the first line's point 0
    double *change;
    ptrdiff_t state_next, change_next; // from the first line to the second one
};

// The lines through (i, j) in the directions other than `direction`, and through the next point
// of the first of those: x: lines (j, k) = (a, b), (a + 1, b); y: (i, k); z: (i, j). `last` is
// the last inner a.
struct cfd_lines cfd_lines(const struct cfd *cfd, int direction, int a, int b, int last);

// Eliminates points first..end-1 of the lines; 1 <= first, end <= n - 1. What is before `first`
// must have been eliminated. `upper` holds one block a point of the line.
void cfd_eliminate(const struct cfd *cfd, int direction, struct cfd_lines lines, int first,
                   int end, cfd_block *upper);

// Substitutes points end-1..first, in this order, after the points from `end` on.
void cfd_substitute(const struct cfd *cfd, int direction, struct cfd_lines lines, int first,
                    int end, cfd_block *upper);

// Solves all lines of one direction, in parallel.
void cfd_block_solve(const struct cfd *cfd, int direction);

// BT's classes: points, time step, time steps, and the published norms.
struct cfd_bt_class {
    int n;
    double dt;
    int steps;
    double residual[UNKNOWNS], error[UNKNOWNS];
};

extern const struct cfd_bt_class cfd_bt_classes[4];

// The operations of BT as the benchmark counts them.
double cfd_bt_operations(const struct cfd_bt_class *class);

#endif
