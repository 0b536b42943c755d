// LU with its sweeps as doacross loops: the runtime passes the wavefront on.
//
// The planes go round the threads; a row waits for the same row of the plane before it. The
// row before it in the same plane is the same thread's.
#include "cfd_lu.h"

static void lower(struct cfd *cfd)
{
    const int n = cfd->n;
#pragma omp parallel
#pragma omp for ordered(2) schedule(static, 1)
    for (int k = 1; k < n - 1; k++)
        for (int j = 1; j < n - 1; j++) {
#pragma omp ordered depend(sink : k - 1, j) depend(sink : k, j - 1)
            cfd_lu_lower(cfd, j, k);
#pragma omp ordered depend(source)
        }
}

static void upper(struct cfd *cfd)
{
    const int n = cfd->n;
#pragma omp parallel
#pragma omp for ordered(2) schedule(static, 1)
    for (int k = n - 2; k > 0; k--)
        for (int j = n - 2; j > 0; j--) {
#pragma omp ordered depend(sink : k + 1, j) depend(sink : k, j + 1)
            cfd_lu_upper(cfd, j, k);
#pragma omp ordered depend(source)
        }
}

int main(int argc, char **argv)
{
    return cfd_lu_run("lu_doacross", argc, argv, NULL, lower, upper);
}
