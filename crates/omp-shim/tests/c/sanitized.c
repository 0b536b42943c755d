/* As few lines as a program of threads has. Built with a sanitizer, whose run-time library has to see the threads that are made.
   What it does is atomic: a sanitizer knows nothing of the joins of an OpenMP library, neither of ours nor of another. */
#include <stdio.h>
int main(void) {
  static int seen;
#pragma omp parallel num_threads(4)
  __atomic_fetch_add(&seen, 1, __ATOMIC_ACQ_REL);
#pragma omp parallel num_threads(4)
  __atomic_fetch_add(&seen, 1, __ATOMIC_ACQ_REL);
  puts(__atomic_load_n(&seen, __ATOMIC_ACQUIRE) == 8 ? "ok" : "wrong");
  return 0;
}
