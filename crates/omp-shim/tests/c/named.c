/* Whether a number of threads that the program names is exact where dyn-var was true at start. With
   ASAT_MAX=1 a team that may shrink has one member. */
#include <omp.h>
#include <stdio.h>

static int members(void) {
  int count = 0;
#pragma omp parallel reduction(+ : count)
  count += 1;
  return count;
}

int main(void) {
#ifdef ALLOWED
  omp_set_dynamic(1);
#endif
  int before = members();
  omp_set_num_threads(3);
  int named = members();
  int inside = 0;
#pragma omp parallel num_threads(2) reduction(+ : inside)
  inside += omp_get_dynamic();
  printf("before=%d named=%d dynamic=%d inside=%d\n", before, named, omp_get_dynamic(), inside);
  return 0;
}
