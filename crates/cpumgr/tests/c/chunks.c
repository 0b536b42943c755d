/* D1: a member that is asked for its processor leaves it between two chunks of a loop, or between two tasks. Prints "ready" when
 * member 1 is bound to a processor of its own, then "moved" when it is bound to another one while it never waits.
 * Usage: chunks loop|tasks. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static volatile int first = -1, moved;

/* The processor that the calling thread is bound to; -1: none. */
static int own(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) != 1) return -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) return cpu;
  return -1;
}

static void piece(void) {
  if (moved) return;
  if (omp_get_thread_num() == 1) {
    int cpu = own();
    if (first < 0 && cpu >= 0) {
      first = cpu;
      puts("ready");
      fflush(stdout);
    } else if (cpu != first) {
      moved = 1;
    }
  }
  double end = omp_get_wtime() + 1e-4;
  while (omp_get_wtime() < end) {}
}

int main(int argc, char **argv) {
  int tasks = argc > 1 && !strcmp(argv[1], "tasks");
  double end = omp_get_wtime() + 10;
  /* Its members were put on their processors when they waited. */
  for (int round = 0; round < 20; round++)
#pragma omp parallel num_threads(2)
    piece();
#pragma omp parallel num_threads(2)
  if (tasks) {
#pragma omp single
    while (!moved && omp_get_wtime() < end) {
#pragma omp taskgroup
      for (int i = 0; i < 1000; i++) {
#pragma omp task
        piece();
      }
    }
  } else {
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < 1000000; i++)
      if (omp_get_wtime() < end) piece();
  }
  puts(moved ? "moved" : "stayed");
  return 0;
}
