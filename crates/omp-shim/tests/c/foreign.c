/* Threads that the program made itself are masters of their own teams, many at once and one after another. */
#include "check.h"
#include <omp.h>
#include <pthread.h>

static void *master(void *argument) {
  long id = (long)argument;
  for (int round = 0; round < 20; round++) {
    long sum = 0;
    int size = 1 + (int)((id + round) % 4);
#pragma omp parallel num_threads(size) reduction(+ : sum)
    {
      CHECK_EQUAL(omp_get_num_threads(), size);
      CHECK_EQUAL(omp_get_level(), 1);
#pragma omp for schedule(dynamic)
      for (int i = 0; i < 100; i++) sum += i;
    }
    CHECK_EQUAL(sum, 4950);
  }
  return NULL;
}

int main(void) {
  for (int generation = 0; generation < 10; generation++) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, master, (void *)i), 0);
    master((void *)3L);
    for (int i = 0; i < 8; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  }
  puts("ok");
  return 0;
}
