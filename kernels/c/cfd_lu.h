// What the two versions of LU share: the symmetric successive over-relaxation of the flow
// problem's implicit time step, row by row, and LU's classes. The versions differ in how the
// threads pass the wavefront of a sweep on.
//
// With D the block diagonal, Y and Z the blocks below and above it of the implicit operator, a
// time step solves (D + omega Y) (I + omega D^-1 Z) change = dt right-hand side, by a sweep from
// the first point to the last one and one back, and adds change / (omega (2 - omega)).
#ifndef KERNELS_CFD_LU_H
#define KERNELS_CFD_LU_H

#include "cfd.h"

// A row of the sweep with D + omega Y. The rows (j - 1, k) and (j, k - 1) must be finished.
void cfd_lu_lower(const struct cfd *cfd, int j, int k);

// A row of the sweep with I + omega D^-1 Z, after the rows (j + 1, k) and (j, k + 1).
void cfd_lu_upper(const struct cfd *cfd, int j, int k);

// One sweep over all rows, in parallel, each row after those that it depends on.
typedef void cfd_lu_sweep(struct cfd *cfd);

// The whole program, on two sweeps and the version's own options (or NULL): what `main` returns.
int cfd_lu_run(const char *kernel, int argc, char **argv, const struct option_extra *extra,
               cfd_lu_sweep *lower, cfd_lu_sweep *upper);

#endif
