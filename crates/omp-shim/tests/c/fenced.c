/* Prints how many processors the program has, and on how many all members of a team together may run. */
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sched.h>

int main(void) {
  cpu_set_t all;
  CPU_ZERO(&all);
#pragma omp parallel
  {
    cpu_set_t own;
    CHECK_EQUAL(sched_getaffinity(0, sizeof own, &own), 0);
#pragma omp critical
    CPU_OR(&all, &all, &own);
  }
  printf("procs=%d within=%d\n", omp_get_num_procs(), CPU_COUNT(&all));
  return 0;
}
