/* A program with threads of its own asks how many it is to have: no OpenMP. */
#include "asat.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int asat_adjust_threads_(const int *most);

static void *work(void *sum) {
  for (volatile int i = 0; i < 100000; i++) *(long *)sum += i;
  return 0;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Parallel parts for some time; 0 where an answer is out of bounds. */
static int run(int most, double seconds) {
  double begin = now();
  while (now() - begin < seconds) {
    int threads = asat_adjust_threads(most);
    if (threads < 1 || threads > most) return 0;
    pthread_t own[64];
    long sums[64] = {0};
    for (int i = 0; i < threads; i++) pthread_create(&own[i], 0, work, &sums[i]);
    for (int i = 0; i < threads; i++) pthread_join(own[i], 0);
  }
  return 1;
}

int main(void) {
  int four = 4, procs = (int)sysconf(_SC_NPROCESSORS_ONLN), first = asat_adjust_threads(procs);
  if (first < 1 || first > procs) return 1;
  if (asat_adjust_threads(0) != 1 || asat_adjust_threads(-5) != 1 || asat_adjust_threads(1) != 1) return 2;
  int fortran = asat_adjust_threads_(&four);
  if (fortran < 1 || fortran > 4) return 3;
  if (!run(procs > 64 ? 64 : procs, 2.5)) return 4;
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(run(2, 1.5) ? 0 : 5);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) return 6;
  /* Thousands of calls in a second, as before each part of a program. */
  double begin = now();
  for (int i = 0; i < 1000000; i++) asat_adjust_threads(procs);
  double each = (now() - begin) * 1e3;
  printf("a call %.1f ns\n", each);
  puts("ok");
  return 0;
}
