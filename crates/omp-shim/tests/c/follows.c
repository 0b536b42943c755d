/* A program that knows nothing of page migration (UPM=on): an outer loop of two regions on static
   and allocated arrays, with a handler of its own for SIGSEGV, system calls on its arrays, and
   children. It must compute the same. */
#include "check.h"
#include <omp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define N (1 << 18)

static double old[N], fresh[N];
static double *more;
static sigjmp_buf out;
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  /* Its own fault only. */
  if ((uintptr_t)info->si_addr != 64) _exit(7);
  faults++;
  siglongjmp(out, 1);
}

static void own_fault(void) {
  if (sigsetjmp(out, 1) == 0) *(volatile char *)(uintptr_t)64 = 1;
}

static void step(void) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < N; i++) fresh[i] = old[i] * 0.5 + more[i];
#pragma omp parallel for schedule(static)
  for (int i = 0; i < N; i++) old[i] = fresh[i] + 1, more[i] += 1;
}

int main(int count, char **arguments) {
  int steps = count > 1 ? atoi(arguments[1]) : 600, pipes[2];
  more = calloc(N, sizeof *more);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0 && pipe(pipes) == 0);
  for (int i = 0; i < steps; i++) {
    step();
    CHECK_EQUAL(write(pipes[1], old + i, 4096), 4096);
    CHECK_EQUAL(read(pipes[0], fresh + i, 4096), 4096);
    if (i % 32 == 0) {
      own_fault();
      pid_t child = fork();
      if (child == 0) {
        double sum = 0;
        for (int k = 0; k < N; k += 64) sum += old[k] + more[k], more[k] = 0;
        _exit(sum > 0 ? 0 : 1);
      }
      int status;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
  }
  double x = 0, m = 0;
  for (int i = 0; i < steps; i++) x = x * 0.5 + m + 1, m += 1;
  for (int i = 0; i < N; i++) CHECK(old[i] == x && more[i] == m);
  CHECK_EQUAL(faults, (steps + 31) / 32);
  puts("ok");
  return 0;
}
