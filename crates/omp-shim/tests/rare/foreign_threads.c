/* Two hundred threads of the program, fifty at a time, each with regions, tasks and nested regions; one leaves the process
 * from inside a region. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *work(void *argument) {
  long id = (long)argument, sum = 0;
  int size = (int)(id % 3) + 2;
#pragma omp parallel num_threads(size) reduction(+ : sum)
  {
#pragma omp for schedule(dynamic, 7) nowait
    for (int i = 0; i < 100; i++) sum += i;
#pragma omp single
    for (int i = 0; i < 10; i++) {
#pragma omp task shared(sum)
      {
      }
    }
#pragma omp masked
    {
#pragma omp parallel num_threads(2) reduction(+ : sum)
      sum += omp_get_num_threads();
    }
  }
  return (void *)(sum - (omp_get_max_active_levels() > 1 ? 4 : 1));
}

int main(void) {
  long total = 0;
  for (int round = 0; round < 4; round++) {
    pthread_t threads[50];
    for (long i = 0; i < 50; i++) pthread_create(&threads[i], NULL, work, (void *)(round * 50 + i));
    for (int i = 0; i < 50; i++) {
      void *result;
      pthread_join(threads[i], &result);
      total += (long)result;
    }
  }
  printf("%ld\n", total);
  fflush(stdout);
#pragma omp parallel num_threads(4)
  {
#pragma omp barrier
    if (omp_get_thread_num() == 2) exit(7);
#pragma omp barrier
  }
  return 0;
}
