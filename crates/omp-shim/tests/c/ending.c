/* The program ends while its threads wait for the next region, in the way that the argument names. */
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <string.h>

static void region(void) {
  int members = 0;
#pragma omp parallel num_threads(4) reduction(+ : members)
  members += 1;
  CHECK_EQUAL(members, 4);
}

/* Runs after main; threads of the library are there or not, regions work. */
static void at_end(void) {
  region();
}

static void *other(void *unused) {
  (void)unused;
  region();
  exit(0);
}

static void *region_once(void *main_thread) {
  if (main_thread != NULL) pthread_join(*(pthread_t *)main_thread, NULL);
  region();
  return NULL;
}

/* The main thread leaves, and the process ends with its last other thread. */
static void leave(const char *way) {
  static pthread_t self;
  self = pthread_self();
  puts("ok");
  fflush(stdout);
  atexit(at_end);
  if (strcmp(way, "main leaves unseen") != 0) region();
  if (strcmp(way, "main leaves last") != 0) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, region_once, &self), 0);
    pthread_detach(thread);
  }
  pthread_exit(NULL);
}

int main(int count, char **arguments) {
  CHECK_EQUAL(count, 2);
  const char *way = arguments[1];
  if (strncmp(way, "main leaves", 11) == 0) leave(way);
  region();
  puts("ok");
  fflush(stdout);
  if (strcmp(way, "_exit") == 0) _exit(0);
  atexit(at_end);
  if (strcmp(way, "exit") == 0) exit(0);
  if (strcmp(way, "thread") == 0) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, other, NULL), 0);
    pthread_join(thread, NULL);
  }
  if (strcmp(way, "region") == 0) {
    /* In the middle of a region, whose other members wait at a barrier. */
#pragma omp parallel num_threads(4)
    {
      if (omp_get_thread_num() == 1) _exit(0);
#pragma omp barrier
    }
  }
  return 0;
}
