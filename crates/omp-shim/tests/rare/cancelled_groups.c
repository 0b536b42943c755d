/* Cancelled task groups, one inside another, with dependences: what is outside runs, what waits inside does not. */
#include <omp.h>
#include <stdio.h>

static int outer_done, inner_after, late, nested_done, discarded;

static void groups(void) {
  int x = 0, y = 0;
  (void)x, (void)y;
#pragma omp taskgroup
  {
    for (int i = 0; i < 10; i++) {
#pragma omp task depend(inout : x)
#pragma omp atomic
      outer_done++;
    }
#pragma omp taskgroup
    {
#pragma omp task depend(out : y)
      {
#pragma omp cancel taskgroup
#pragma omp atomic
        inner_after++; /* not reached: the cancel ends the task */
      }
      /* Waits for the cancelling one. */
      for (int i = 0; i < 10; i++) {
#pragma omp task depend(inout : y)
#pragma omp atomic
        discarded++;
      }
    }
    for (int i = 0; i < 10; i++) {
#pragma omp task depend(inout : x, y)
      {
#pragma omp atomic
        late++;
#pragma omp taskgroup
        {
#pragma omp task
          {
#pragma omp cancellation point taskgroup
#pragma omp atomic
            nested_done++;
          }
        }
      }
    }
  }
  printf("outer %d inner %d discarded %d late %d nested %d\n", outer_done, inner_after, discarded, late, nested_done);
}

static void loops(void) {
  int met = 0, whole = 0;
#pragma omp parallel num_threads(3)
  {
    for (int round = 0; round < 20; round++) {
#pragma omp for schedule(dynamic)
      for (int i = 0; i < 1000; i++) {
#pragma omp cancellation point for
        if (i == 5) {
#pragma omp atomic
          met++;
#pragma omp cancel for
        }
      }
#pragma omp for reduction(+ : whole)
      for (int i = 0; i < 10; i++) whole++;
#pragma omp sections
      {
#pragma omp section
        {
#pragma omp cancel sections
        }
#pragma omp section
        {
#pragma omp cancellation point sections
        }
      }
    }
  }
  printf("met %d whole %d\n", met, whole);
}

static void taskloops(void) {
  int before = 0, after = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp taskloop grainsize(1)
    for (int i = 0; i < 100; i++) {
#pragma omp cancel taskgroup if (i >= 0)
#pragma omp atomic
      before++;
    }
#pragma omp taskloop grainsize(1)
    for (int i = 0; i < 100; i++)
#pragma omp atomic
      after++;
  }
  printf("before %d after %d\n", before, after);
}

static void regions(void) {
  int beyond = 0, again = 0;
  for (int round = 0; round < 50; round++) {
#pragma omp parallel num_threads(4)
    {
#pragma omp task
      {
      }
      if (omp_get_thread_num() == round % 4) {
#pragma omp cancel parallel
      }
#pragma omp barrier
#pragma omp atomic
      beyond++;
    }
#pragma omp parallel num_threads(4)
    {
#pragma omp single
#pragma omp atomic
      again++;
#pragma omp for schedule(dynamic)
      for (int i = 0; i < 8; i++)
#pragma omp atomic
        again++;
    }
  }
  printf("beyond %d again %d\n", beyond, again);
}

int main(void) {
  printf("cancellation %d\n", omp_get_cancellation());
#pragma omp parallel num_threads(3)
#pragma omp single
  groups();
  loops();
  taskloops();
  regions();
  return 0;
}
