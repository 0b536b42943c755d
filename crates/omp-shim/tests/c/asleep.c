/* A thread that sleeps at a barrier is woken for each task that is created while its creator comes to no scheduling point. */
#include "check.h"
#include <omp.h>
#include <stdatomic.h>
#include <time.h>

int main(void) {
  atomic_int taken = 0;
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 0) {
    for (int round = 0; round < 60; round++) {
      /* Longer than a hot thread spins (2 ms), without a scheduling point. */
      struct timespec pause = {0, 4000000};
      nanosleep(&pause, NULL);
#pragma omp task shared(taken)
      taken++;
      while (taken == round) continue;
    }
  }
  CHECK_EQUAL(taken, 60);
  puts("ok");
  return 0;
}
