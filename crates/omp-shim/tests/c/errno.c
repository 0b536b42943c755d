/* A thread's errno is its own: what the library asks the kernel between a failing call of the program and its look at errno
   does not show. Runs longer than the library's looks at what the machine allows are apart (100 ms); then short in many
   children of a program that has not used the library yet: what it makes once, it makes while other threads wait for it. */
#include "check.h"
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define LASTS 0.35
#define CHILDREN 100

static double lasts;

/* No kernel's error: each thread has its own. */
static int mine(void) { return 5000 + omp_get_thread_num() + 1000 * omp_get_level(); }

static void set(void) { errno = mine(); }

#define STILL CHECK_EQUAL(errno, mine())

static omp_lock_t lock;
static long sum;

static void constructs(void) {
  set();
#pragma omp barrier
  STILL;
#pragma omp for schedule(dynamic) nowait
  for (int i = 0; i < 20; i++) STILL;
  STILL;
#pragma omp for ordered
  for (int i = 0; i < 8; i++) {
#pragma omp ordered
    sum++;
    STILL;
  }
#pragma omp single
  {
    STILL;
    for (int i = 0; i < 4; i++) {
#pragma omp task
      {
        int other = errno;
        set();
#pragma omp taskyield
        STILL;
        errno = other;
      }
      STILL;
    }
#pragma omp taskwait
    STILL;
  }
  STILL;
#pragma omp critical
  sum++;
  STILL;
  omp_set_lock(&lock);
  sum++;
  omp_unset_lock(&lock);
  STILL;
  int own = mine();
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0) CHECK_EQUAL(errno, own);
    set();
#pragma omp barrier
    STILL;
    if (omp_get_thread_num() == 0) errno = own;
  }
  STILL;
#pragma omp sections reduction(+ : sum)
  {
    sum++;
#pragma omp section
    sum++;
  }
  STILL;
}

static void *master(void *none) {
  double end = omp_get_wtime() + lasts;
  do {
    int rounds = 0;
    set();
#pragma omp parallel firstprivate(rounds)
    {
      int own = mine();
      if (omp_get_thread_num() == 0) CHECK_EQUAL(errno, 5000);
      for (; rounds < 3; rounds++) constructs();
      CHECK_EQUAL(errno, own);
      if (omp_get_thread_num() == 0) errno = 5000;
    }
    CHECK_EQUAL(errno, 5000);
  } while (omp_get_wtime() < end);
  return none;
}

static void two_masters(double seconds) {
  lasts = seconds;
  omp_set_max_active_levels(2);
  omp_init_lock(&lock);
  /* The first region starts the library, and threads. */
  pthread_t other;
  CHECK_EQUAL(pthread_create(&other, NULL, master, NULL), 0);
  master(NULL);
  CHECK_EQUAL(pthread_join(other, NULL), 0);
  omp_destroy_lock(&lock);
  CHECK(sum > 0);
}

int main(void) {
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    if (child == 0) {
      two_masters(0);
      _exit(0);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
  }
  two_masters(LASTS);
  puts("ok");
  return 0;
}
