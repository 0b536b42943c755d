/* Two copies of the library under the paths in the arguments, each loaded locally: the second one's members are the threads
 * of the first one's pool, and a region of one inside a region of the other is a nested one. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

enum { SIZE = 4 };

typedef void parallel(void (*)(void *), void *, unsigned, unsigned);
typedef void start(void (*)(void *), void *, unsigned);
typedef void end(void);
typedef int number(void);

struct copy {
  parallel *fork;
  /* What gcc before 4.9 made of a region. */
  start *start;
  end *end;
  number *thread_num, *num_threads, *max_threads;
  pthread_t threads[SIZE];
  int ran;
};

static void member(void *argument) {
  struct copy *copy = argument;
  CHECK_EQUAL(copy->num_threads(), SIZE);
  copy->threads[copy->thread_num()] = pthread_self();
  __atomic_fetch_add(&copy->ran, 1, __ATOMIC_RELAXED);
}

/* The sizes of regions of `inner`'s without and with a number, inside a team of the other copy. */
static struct copy *inner;
static int nested;

static void count(void *size) {
  if (inner->thread_num() == 0) __atomic_store_n((int *)size, inner->num_threads(), __ATOMIC_RELAXED);
}

static void outer(void *unused) {
  (void)unused;
  for (unsigned threads = 0; threads <= 3; threads += 3) {
    int size = 0;
    inner->fork(count, &size, threads, 0);
    CHECK_EQUAL(size, 1);
    __atomic_fetch_add(&nested, 1, __ATOMIC_RELAXED);
  }
}

static void load(struct copy *copy, const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  CHECK(library);
  copy->fork = (parallel *)dlsym(library, "GOMP_parallel");
  copy->start = (start *)dlsym(library, "GOMP_parallel_start");
  copy->end = (end *)dlsym(library, "GOMP_parallel_end");
  copy->thread_num = (number *)dlsym(library, "omp_get_thread_num");
  copy->num_threads = (number *)dlsym(library, "omp_get_num_threads");
  copy->max_threads = (number *)dlsym(library, "omp_get_max_threads");
}

int main(int count, char **arguments) {
  static struct copy copies[2];
  CHECK_EQUAL(count, 3);
  for (int i = 0; i < 2; i++) load(&copies[i], arguments[1 + i]);
  CHECK(copies[0].fork != copies[1].fork);
  CHECK_EQUAL(copies[0].max_threads(), copies[1].max_threads());
  for (int round = 0; round < 50; round++) {
    /* The second one first: it has no engine even before the first one has been used. */
    for (int i = 1; i >= 0; i--) {
      copies[i].ran = 0;
      copies[i].fork(member, &copies[i], SIZE, 0);
      CHECK_EQUAL(copies[i].ran, SIZE);
      CHECK_EQUAL(copies[i].num_threads(), 1);
    }
    for (int i = 0; i < SIZE; i++) CHECK(pthread_equal(copies[0].threads[i], copies[1].threads[i]));
  }
  for (int round = 0; round < 20; round++) {
    struct copy *copy = &copies[round % 2];
    copy->ran = 0;
    copy->start(member, copy, SIZE);
    member(copy);
    copy->end();
    CHECK_EQUAL(copy->ran, SIZE);
    CHECK_EQUAL(copy->num_threads(), 1);
  }
  for (int i = 0; i < 2; i++) {
    inner = &copies[1 - i];
    nested = 0;
    copies[i].fork(outer, NULL, SIZE, 0);
    CHECK_EQUAL(nested, 2 * SIZE);
    /* Outside again. */
    inner->ran = 0;
    inner->fork(member, inner, SIZE, 0);
    CHECK_EQUAL(inner->ran, SIZE);
  }
  puts("ok");
  return 0;
}
