/* Many constructs without waits between them, cancelled ones in nested regions, and all of them outside any region. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int done, after, met, outside;
static long total;

static void cancelled_inside(void) {
#pragma omp parallel num_threads(2)
  {
#pragma omp for schedule(guided)
    for (int k = 0; k < 100; k++) {
#pragma omp cancel for if (k == 3)
    }
#pragma omp atomic
    after++;
#pragma omp barrier
#pragma omp cancel parallel if (omp_get_thread_num() == 1)
#pragma omp cancellation point parallel
  }
}

static void nested(void) {
#pragma omp parallel num_threads(4)
  {
#pragma omp for ordered schedule(dynamic)
    for (int i = 0; i < 20; i++) {
#pragma omp ordered
      done++;
    }
#pragma omp for schedule(dynamic) nowait
    for (int i = 0; i < 20; i++) {
    }
#pragma omp sections
    {
#pragma omp section
      cancelled_inside();
#pragma omp section
      {
#pragma omp taskgroup
        for (int i = 0; i < 10; i++) {
#pragma omp task
          {
#pragma omp cancel taskgroup
          }
        }
      }
    }
  }
}

static void ahead(void) {
#pragma omp parallel num_threads(3)
  for (int round = 0; round < 50; round++) {
#pragma omp for schedule(runtime) nowait reduction(+ : total)
    for (int i = 0; i < 37; i++) total += i;
#pragma omp for schedule(static) nowait
    for (int i = 0; i < 3; i++) {
    }
#pragma omp for schedule(dynamic, 1000) nowait
    for (int i = 0; i < 3; i++)
#pragma omp atomic
      met++;
#pragma omp for schedule(guided, 1000)
    for (int i = 10; i > 0; i -= 4)
#pragma omp atomic
      met++;
#pragma omp sections nowait
    {
#pragma omp section
#pragma omp atomic
      met++;
    }
  }
}

static int handed_round(void) {
  int wrong = 0;
#pragma omp parallel num_threads(4) reduction(+ : wrong)
  {
    char text[300];
    double half;
    int *place;
    for (int i = 0; i < 200; i++) {
#pragma omp single copyprivate(text, half, place)
      {
        snprintf(text, sizeof text, "%d", i);
        half = i * .5;
        place = malloc(sizeof *place);
        *place = i;
      }
      wrong += atoi(text) != i || half != i * .5 || *place != i;
#pragma omp barrier
#pragma omp single
      free(place);
    }
  }
  return wrong;
}

static void serial(void) {
#pragma omp for schedule(guided) ordered
  for (int i = 0; i < 5; i++) {
#pragma omp ordered
    outside++;
  }
#pragma omp single
  outside++;
#pragma omp sections
  {
#pragma omp section
    outside++;
#pragma omp section
    outside++;
  }
#pragma omp for schedule(dynamic) reduction(task, + : outside)
  for (int i = 0; i < 5; i++) {
#pragma omp task in_reduction(+ : outside)
    outside++;
  }
#pragma omp taskgroup task_reduction(+ : outside)
#pragma omp taskloop in_reduction(+ : outside)
  for (int i = 0; i < 5; i++) outside++;
#pragma omp barrier
#pragma omp critical
  outside++;
}

int main(void) {
  for (int round = 0; round < 30; round++) nested();
  printf("%d %d\n", done, after);
  ahead();
  printf("%d %ld\n", met, total);
  printf("%d\n", handed_round());
  serial();
#pragma omp parallel num_threads(3) if (outside < 0)
  serial();
  printf("%d\n", outside);
  return 0;
}
