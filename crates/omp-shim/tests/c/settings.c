/* Prints what the environment led to. */
#include <omp.h>
#include <stdio.h>

int main(void) {
  omp_sched_t kind;
  int chunk, members = 0;
  omp_get_schedule(&kind, &chunk);
#pragma omp parallel reduction(+ : members)
  members += 1;
  printf("threads=%d members=%d dynamic=%d schedule=%x,%d levels=%d limit=%d cancel=%d bind=%d\n", omp_get_max_threads(),
         members, omp_get_dynamic(), (unsigned)kind, chunk, omp_get_max_active_levels(), omp_get_thread_limit(),
         omp_get_cancellation(), (int)omp_get_proc_bind());
  return 0;
}
