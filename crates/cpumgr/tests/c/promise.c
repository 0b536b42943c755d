/* D15: a program that asks omp_get_max_threads() and deals its work out by the answer gets that
 * number of threads, though the manager grants fewer processors. A region whose size the program did
 * not ask for follows the grant. With OMP_NUM_THREADS=2 and a grant of one processor it prints
 * "1 2 1 2". */
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>

static int follows(void) {
  int size = 0;
#pragma omp parallel shared(size)
#pragma omp single
  size = omp_get_num_threads();
  return size;
}

/* Members wait for each other's parts, as those of OpenBLAS's GEMM do: with fewer than n of them this never ends. */
static int promised(void) {
  int n = omp_get_max_threads(), size = 0;
  atomic_int parts = 0;
#pragma omp parallel for schedule(static) shared(size, parts)
  for (int i = 0; i < n; i++) {
    atomic_fetch_add(&parts, 1);
    while (atomic_load(&parts) < n) continue;
    size = omp_get_num_threads();
  }
  return size;
}

int main(void) {
  int a = follows(), b = promised(), c = follows(), d = promised();
  printf("%d %d %d %d\n", a, b, c, d);
  return 0;
}
