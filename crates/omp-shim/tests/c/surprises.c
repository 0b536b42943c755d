/* A body that had no tasks for many regions has one, and its maker waits for it in its own code: a thread that is done with
   its part runs it, as it would in a body that always had tasks. Which thread waits, and which is done, differs. */
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sched.h>

#define QUIET 5

static volatile int done, seen;
static int runner, own;
#pragma omp threadprivate(own)

/* What a region is like: which thread makes the task, which waits for it, and how. */
struct plan {
  int threads, maker, depth, tail;
  unsigned waits; /* a bit for each thread */
};

static void await(volatile int *what) {
  while (!*what) sched_yield();
}

/* One function for each kind, or all would be one body. */
#define KIND(name)                                                                       \
  static void name(struct plan p, int with) {                                            \
    _Pragma("omp parallel num_threads(p.threads)") {                                     \
      int id = omp_get_thread_num();                                                     \
      own = 100 + id;                                                                    \
      if (with && id == p.maker) {                                                       \
        /* The others have been gone for some time, and sleep most likely. */            \
        if (p.depth) usleep(10000);                                                      \
        _Pragma("omp task") {                                                            \
          await(&seen);                                                                  \
          CHECK_EQUAL(own, 100 + omp_get_thread_num());                                  \
          CHECK_EQUAL(omp_get_num_threads(), p.threads);                                 \
          runner = omp_get_thread_num();                                                 \
          if (p.depth) {                                                                 \
            int sum = 0;                                                                 \
            _Pragma("omp parallel num_threads(2) reduction(+ : sum)") sum += 1;          \
            CHECK_EQUAL(sum, omp_get_max_active_levels() > 1 ? 2 : 1);                   \
            _Pragma("omp task shared(done)") done = 1;                                   \
            _Pragma("omp taskwait");                                                     \
          }                                                                              \
          done = 1;                                                                      \
        }                                                                                \
        /* Not run at its creation: what it waits for comes later. */                    \
        seen = 1;                                                                        \
      }                                                                                  \
      if (with && (p.waits >> id & 1)) await(&done);                                     \
      if (p.tail) {                                                                      \
        _Pragma("omp barrier")                                                           \
      }                                                                                  \
    }                                                                                    \
  }
KIND(by_slave)
KIND(by_slave_while_the_master_waits)
KIND(by_master)
KIND(by_master_of_many)
KIND(by_last_of_many)
KIND(while_all_but_one_wait)
KIND(deeper)
KIND(before_a_last_barrier)
KIND(of_many)

static void surprise(void (*body)(struct plan, int), struct plan p) {
  for (int region = 0; region < QUIET; region++) body(p, 0);
  for (int region = 0; region < 3; region++) {
    done = seen = 0;
    body(p, 1);
    CHECK(done && !(p.waits >> runner & 1));
  }
  for (int region = 0; region < QUIET; region++) body(p, 0);
}

int main(int count, char **arguments) {
  for (int round = 0; round < (count > 1 ? atoi(arguments[1]) : 1); round++) {
    surprise(by_slave, (struct plan){2, 1, 0, 0, 1u << 1});
    surprise(by_slave_while_the_master_waits, (struct plan){3, 1, 0, 0, 1u | 1u << 1});
    surprise(by_master, (struct plan){2, 0, 0, 0, 1u});
    surprise(by_master_of_many, (struct plan){8, 0, 0, 0, 1u});
    surprise(by_last_of_many, (struct plan){8, 7, 0, 0, 1u << 7});
    surprise(while_all_but_one_wait, (struct plan){5, 2, 0, 0, 0x1fu & ~(1u << 3)});
    surprise(before_a_last_barrier, (struct plan){4, 2, 0, 1, 1u << 2 | 1u});
    surprise(of_many, (struct plan){40, 20, 1, 0, 1u << 20});
    omp_set_max_active_levels(2);
    surprise(deeper, (struct plan){3, 1, 1, 0, 1u << 1});
    omp_set_max_active_levels(1);
  }
  puts("ok");
  return 0;
}
