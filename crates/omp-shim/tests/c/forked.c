/* A child of fork has regions of its own, and so has the parent afterwards; also when the fork is inside a region. */
#include "check.h"
#include <omp.h>
#include <sys/wait.h>

static int members(int threads) {
  int sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += 1;
  return sum;
}

static void wait_for(pid_t child) {
  int status = 0;
  CHECK(child > 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), 0);
}

int main(void) {
  CHECK_EQUAL(members(4), 4);
  for (int round = 0; round < 5; round++) {
    pid_t child = fork();
    if (child == 0) {
      CHECK_EQUAL(members(4), 4);
      CHECK_EQUAL(members(3), 3);
      _exit(0);
    }
    CHECK_EQUAL(members(4), 4);
    wait_for(child);
  }
#pragma omp parallel num_threads(4)
  {
#pragma omp single
    {
      pid_t child = fork();
      if (child == 0) _exit(0);
      wait_for(child);
    }
  }
  puts("ok");
  return 0;
}
