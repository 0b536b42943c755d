/* With OMP_MAX_TASK_PRIORITY=5 the ready task of the highest priority runs first, among equals the oldest; a larger number
 * counts as 5. */
#include "check.h"
#include <omp.h>
#include <stdatomic.h>

enum { TASKS = 7 };

int main(void) {
  static const int priorities[TASKS] = {0, 3, 9, 1, 5, 2, 3}, expected[TASKS] = {9, 5, 3, 3, 2, 1, 0};
  static const int places[TASKS] = {2, 4, 1, 6, 5, 3, 0};
  int order[TASKS], which[TASKS];
  atomic_int ran = 0, held = 0;
  CHECK_EQUAL(omp_get_max_task_priority(), 5);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    /* The other thread is busy until all have run; this one comes to no scheduling point before all are created. */
#pragma omp task shared(ran, held)
    {
      held = 1;
      while (ran < TASKS) continue;
    }
    while (!held) continue;
    for (int i = 0; i < TASKS; i++) {
#pragma omp task shared(order, which, ran) priority(priorities[i])
      {
        order[ran] = priorities[i];
        which[ran] = i;
        ran++;
      }
    }
#pragma omp taskwait
  }
  for (int i = 0; i < TASKS; i++) {
    CHECK_EQUAL(order[i], expected[i]);
    CHECK_EQUAL(which[i], places[i]);
  }
  puts("ok");
  return 0;
}
