/* Run with OMP_CANCELLATION=true: `cancel parallel` wakes threads that sleep at a barrier without a time limit. The others have no other
 * way to learn of it. Exit code 3: this kernel does not say in which call a thread sleeps. */
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20 };

static atomic_int tids[THREADS];

/* Whether a thread sleeps on a futex, and until another one wakes it: "NUMBER ADDRESS OPERATION VALUE TIMEOUT ...". */
static int sleeps_for_ever(int tid) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
  FILE *file = fopen(path, "r");
  if (!file) exit(3);
  int has_line = fgets(line, sizeof line, file) != NULL;
  fclose(file);
  if (!has_line) exit(3);
  long number;
  unsigned long address, operation, value, timeout;
  if (sscanf(line, "%ld %lx %lx %lx %lx", &number, &address, &operation, &value, &timeout) != 5) return 0;
  return number == SYS_futex && timeout == 0;
}

int main(void) {
  CHECK(omp_get_cancellation());
  for (int round = 0; round < ROUNDS; round++) {
    int late = 0;
    for (int i = 0; i < THREADS; i++) tids[i] = 0;
#pragma omp parallel num_threads(THREADS)
    {
      int me = omp_get_thread_num();
      /* Each of them in its turn: the primary thread is one that is waited for elsewhere as well. */
      if (me == round % THREADS) {
        for (int i = 0; i < THREADS; i++)
          while (i != me && !(tids[i] && sleeps_for_ever(tids[i]))) sched_yield();
#pragma omp cancel parallel
      }
      tids[me] = (int)syscall(SYS_gettid);
#pragma omp barrier
#pragma omp atomic
      late++;
    }
    CHECK_EQUAL(late, 0);
  }
  puts("ok");
  return 0;
}
