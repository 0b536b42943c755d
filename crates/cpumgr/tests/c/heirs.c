/* D2: what others inherit from a program under a manager: a child by fork and exec, a thread that is made after a
 * region, and a child that a region's other member starts. Each must have the whole mask. Usage: heirs PROCESSORS. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wanted, wrong;

static void expect(const char *who, int found) {
  if (found != wanted) {
    printf("%s: %d processors, not %d\n", who, found, wanted);
    wrong = 1;
  }
}

static int own(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

static void *thread(void *unused) {
  (void)unused;
  expect("a thread made after a region", own());
  return NULL;
}

static void nproc(const char *who) {
  char text[32] = "";
  /* OMP_NUM_THREADS would change nproc's answer. */
  FILE *pipe = popen("env -u OMP_NUM_THREADS -u LD_PRELOAD nproc", "r");
  if (!pipe || !fgets(text, sizeof text, pipe)) strcpy(text, "-1");
  if (pipe) pclose(pipe);
  expect(who, atoi(text));
}

int main(int argc, char **argv) {
  wanted = argc > 1 ? atoi(argv[1]) : 0;
  for (int round = 0; round < 20; round++) {
    int sum = 0;
#pragma omp parallel reduction(+ : sum)
    for (volatile int i = 0; i < 1000000; i++) sum += i % 3;
    if (sum < 0) return 1;
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    nproc("nproc after a region");
    expect("the initial thread", own());
  }
  if (wrong) return 1;
  puts("ok");
  return 0;
}
