/* Regions on small stacks, and many of them in each other: a thread that the program made with the least stack that there is forks,
 * has tasks and loops, and nests; so do the runtime's own threads, whose stacks are as large as OMP_STACKSIZE says; and a
 * recursion opens a region at each of its 3000 levels. */
#include <limits.h>
#include <omp.h>
#include <pthread.h>

#include "check.h"

enum { DEPTH = 3000 };

static int forks(void) {
  int count = 0, tasks = 0, sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : count)
  {
    count++;
#pragma omp single
    for (int i = 0; i < 3; i++) {
#pragma omp task
#pragma omp atomic
      tasks++;
    }
#pragma omp for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 10; i++)
      sum += i;
  }
  return count == 2 && tasks == 3 && sum == 45;
}

static void *of_a_small_thread(void *right) {
  *(int *)right = forks();
  return NULL;
}

static long depth(int levels) {
  long below = 0;
  if (levels == 0)
    return 0;
#pragma omp parallel num_threads(2) reduction(+ : below)
  {
    /* Not the first that comes: the stack of a thread of the runtime is meant to be small here. */
#pragma omp master
    below = 1 + depth(levels - 1);
  }
  return below;
}

int main(void) {
  pthread_attr_t small;
  CHECK(pthread_attr_init(&small) == 0);
  CHECK(pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0);
  for (int turn = 0; turn < 3; turn++) {
    pthread_t thread;
    int right = 0;
    CHECK(pthread_create(&thread, &small, of_a_small_thread, &right) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(right);
  }
  omp_set_max_active_levels(2);
  int right = 0;
#pragma omp parallel num_threads(2) reduction(+ : right)
  right += forks();
  CHECK(right == 2);
  omp_set_max_active_levels(1);
  CHECK(depth(DEPTH) == DEPTH);
  puts("ok");
  return 0;
}
