/* A thread that helps at a barrier completes children of tasks that others run: a thread that waits for them is told in time, none is told
 * twice, and the memory of tasks wanders between the threads. */
#include "check.h"
#include <omp.h>

enum { THREADS = 4 };

/* One member creates and waits by every means; the others are at the region's last barrier. */
static void waits(void) {
  for (int round = 0; round < 150; round++) {
    int plain = 0, grouped = 0, ordered = 0, detached = 0;
#pragma omp parallel num_threads(THREADS)
#pragma omp masked
    {
      for (int i = 0; i < 20; i++) {
#pragma omp task shared(plain)
#pragma omp atomic
        plain++;
#pragma omp taskgroup
        {
          for (int j = 0; j < i; j++) {
#pragma omp task shared(grouped)
#pragma omp atomic
            grouped++;
          }
        }
        int now;
#pragma omp atomic read
        now = grouped;
        CHECK_EQUAL(now, i * (i + 1) / 2);
      }
#pragma omp taskwait
      CHECK_EQUAL(plain, 20);
      for (int i = 0; i < 40; i++) {
#pragma omp task depend(inout : ordered) shared(ordered)
        ordered++;
#pragma omp task depend(in : ordered) shared(ordered) firstprivate(i)
        CHECK_EQUAL(ordered, i + 1);
      }
#pragma omp taskwait depend(in : ordered)
      CHECK_EQUAL(ordered, 40);
      omp_event_handle_t event;
#pragma omp task detach(event) shared(detached)
#pragma omp atomic
      detached++;
#pragma omp task firstprivate(event)
      omp_fulfill_event(event);
#pragma omp taskwait
      CHECK_EQUAL(detached, 1);
    }
  }
}

/* A task that waits by `taskyield` for an older one, which its own thread must not run: a helper that fell asleep before does. The body
 * has had regions without tasks, so that none is expected. */
static void yields(int with_tasks) {
  int done = 0;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0 && with_tasks) {
      /* Longer than any thread spins. */
      double begin = omp_get_wtime();
      while (omp_get_wtime() - begin < 0.004) {
      }
#pragma omp task shared(done)
      {
#pragma omp atomic write
        done = 1;
      }
#pragma omp task shared(done)
      {
        int seen = 0;
        while (!seen) {
#pragma omp taskyield
#pragma omp atomic read
          seen = done;
        }
      }
    }
#pragma omp barrier
    /* No tail. */
    CHECK_EQUAL(done, with_tasks);
  }
}

/* Each member has children of its own, with children: what a helper keeps is about one of the parents at a time. */
static void families(void) {
  for (int round = 0; round < 100; round++) {
    int sums[THREADS] = {0};
#pragma omp parallel num_threads(THREADS)
    {
      int me = omp_get_thread_num();
      for (int i = 0; i < 30; i++) {
#pragma omp task shared(sums) firstprivate(me)
        {
          int own = 0;
          for (int j = 0; j < 5; j++) {
#pragma omp task shared(own)
#pragma omp atomic
            own++;
          }
#pragma omp taskwait
          CHECK_EQUAL(own, 5);
#pragma omp atomic
          sums[me] += own;
        }
      }
      if (me % 2) {
#pragma omp taskwait
        CHECK_EQUAL(sums[me], 150);
      }
    }
    for (int i = 0; i < THREADS; i++) CHECK_EQUAL(sums[i], 150);
  }
}

/* More and larger tasks than the threads keep memory for, and more predecessors than dependences. */
static void many(void) {
  enum { TASKS = 20000 };
  static unsigned char ran[TASKS];
  struct { char bytes[600]; } large = {{0}};
  large.bytes[599] = 7;
  int readers = 0, spot = 0;
#pragma omp parallel num_threads(THREADS)
#pragma omp single
  {
    for (int i = 0; i < TASKS; i++) {
#pragma omp task firstprivate(i)
      ran[i]++;
    }
    for (int i = 0; i < 200; i++) {
#pragma omp task firstprivate(large) shared(readers) depend(in : spot)
      {
#pragma omp atomic
        readers += large.bytes[599];
      }
      if (i % 50 == 49) {
#pragma omp task shared(readers, spot) depend(out : spot) firstprivate(i)
        {
          CHECK_EQUAL(readers, 7 * (i + 1));
          spot++;
        }
      }
    }
  }
  CHECK_EQUAL(spot, 4);
  for (int i = 0; i < TASKS; i++) CHECK_EQUAL(ran[i], 1);
}

/* A chain: each task ends before its child, which another thread may run and end, and with it the memory of both, before the task
 * has told its own parent. */
static int links;

static void next_link(int left) {
#pragma omp atomic
  links++;
  if (left == 0) return;
#pragma omp task firstprivate(left) if (left % 3)
  next_link(left - 1);
  if (left % 7 == 0) {
#pragma omp taskwait
  }
}

static void chains(void) {
  for (int round = 0; round < 120; round++) {
    links = 0;
#pragma omp parallel num_threads(2 + round % 3)
#pragma omp single
    next_link(3000);
    CHECK_EQUAL(links, 3001);
  }
}

int main(void) {
  for (int round = 0; round < 10; round++) yields(0);
  for (int round = 0; round < 30; round++) yields(1);
  chains();
  waits();
  families();
  many();
  puts("ok");
  return 0;
}
