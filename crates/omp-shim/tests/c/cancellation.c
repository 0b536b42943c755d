/* Run with OMP_CANCELLATION=true: regions, loops and groups end early, and the next ones are whole again. */
#include "check.h"
#include <omp.h>

int main(void) {
  CHECK(omp_get_cancellation());
  for (int round = 0; round < 100; round++) {
    int late = 0, ran = 0;
#pragma omp parallel num_threads(4)
    {
      if (omp_get_thread_num() == 1) {
#pragma omp cancel parallel
      }
#pragma omp barrier
#pragma omp atomic
      late++;
    }
    CHECK_EQUAL(late, 0);
#pragma omp parallel num_threads(4)
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 1000; i++) {
#pragma omp atomic
      ran++;
#pragma omp cancel for
    }
    CHECK(ran >= 1 && ran <= 4);
    int tasks = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
#pragma omp taskgroup
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(tasks)
      {
#pragma omp cancel taskgroup
#pragma omp atomic
        tasks++;
      }
    }
    CHECK_EQUAL(tasks, 0);
    int whole = 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp for reduction(+ : whole)
      for (int i = 0; i < 100; i++) whole++;
#pragma omp single
      CHECK_EQUAL(whole, 100);
    }
  }
  puts("ok");
  return 0;
}
