/* Threads of the program are cancelled while they are masters, as often as regions follow each other: a region is no cancellation
   point, whatever the library looks up meanwhile, and what follows has its threads. */
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <time.h>

#define MASTERS 3
#define ROUNDS 60

static void *master(void *regions) {
  for (;;) {
    int sum = 0;
#pragma omp parallel reduction(+ : sum)
    sum += 1;
    CHECK(sum >= 1);
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
#pragma omp barrier
      sum++;
    }
    __atomic_fetch_add((long *)regions, 1, __ATOMIC_RELAXED);
    pthread_testcancel();
  }
}

int main(void) {
  struct timespec pause = {0, 1000 * 1000};
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t masters[MASTERS];
    long regions[MASTERS] = {0};
    for (int i = 0; i < MASTERS; i++) CHECK_EQUAL(pthread_create(&masters[i], NULL, master, &regions[i]), 0);
    nanosleep(&pause, NULL);
    for (int i = 0; i < MASTERS; i++) CHECK_EQUAL(pthread_cancel(masters[i]), 0);
    for (int i = 0; i < MASTERS; i++) {
      void *result;
      CHECK_EQUAL(pthread_join(masters[i], &result), 0);
      CHECK(result == PTHREAD_CANCELED);
    }
  }
  int size = 0;
#pragma omp parallel num_threads(2) reduction(+ : size)
  size++;
  CHECK_EQUAL(size, 2);
  puts("ok");
  return 0;
}
