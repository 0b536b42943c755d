/* Tasks run once, waits wait for what they name, dependences order, and no thread runs an unrelated task in a taskwait. */
#include "check.h"
#include <omp.h>

static int fib(int n) {
  int a, b;
  if (n < 2) return n;
#pragma omp task shared(a) if (n > 5)
  a = fib(n - 1);
#pragma omp task shared(b) final(n < 4)
  b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

static void trees(void) {
  for (int round = 0; round < 20; round++) {
    int result = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    result = fib(15);
    CHECK_EQUAL(result, 610);
  }
}

/* The last barrier completes the tasks that all members left, and those that these leave. */
static void left_behind(void) {
  for (int round = 0; round < 200; round++) {
    int done = 0;
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 10; i++) {
#pragma omp task shared(done)
      {
#pragma omp task shared(done)
#pragma omp atomic
        done++;
#pragma omp atomic
        done++;
      }
    }
    CHECK_EQUAL(done, 80);
  }
}

static void chains(void) {
  enum { LENGTH = 200 };
  static int trace[LENGTH];
  int value = 0, readers = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    for (int i = 0; i < LENGTH; i++) {
#pragma omp task depend(inout : value) shared(value) firstprivate(i)
      trace[i] = value++;
    }
    for (int i = 0; i < 20; i++) {
#pragma omp task depend(in : value) shared(value, readers)
      {
        CHECK_EQUAL(value, LENGTH);
#pragma omp atomic
        readers++;
      }
    }
#pragma omp task depend(out : value) shared(value, readers)
    {
      CHECK_EQUAL(readers, 20);
      value = -1;
    }
#pragma omp taskwait depend(in : value)
    CHECK_EQUAL(value, -1);
  }
  for (int i = 0; i < LENGTH; i++) CHECK_EQUAL(trace[i], i);
}

static void groups(void) {
  int inside = 0, outside = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(outside)
#pragma omp atomic
    outside++;
#pragma omp taskgroup
    {
      for (int i = 0; i < 50; i++) {
#pragma omp task shared(inside)
        {
#pragma omp task shared(inside)
#pragma omp atomic
          inside++;
        }
      }
    }
    CHECK_EQUAL(inside, 50);
  }
  CHECK_EQUAL(outside, 1);
}

static void loops(void) {
  static int hits[500];
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskloop grainsize(7)
    for (int i = 0; i < 500; i++) hits[i]++;
#pragma omp taskloop num_tasks(9)
    for (unsigned long long i = 500; i > 0; i--) hits[i - 1]++;
  }
  for (int i = 0; i < 500; i++) CHECK_EQUAL(hits[i], 2);
  int private = 7;
#pragma omp taskloop grainsize(1) firstprivate(private) if (0)
  for (int i = 0; i < 10; i++) {
    CHECK_EQUAL(private, 7);
    private = i;
  }
}

static void reductions(void) {
  int sum = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
#pragma omp taskgroup task_reduction(+ : sum)
  for (int i = 1; i <= 100; i++) {
#pragma omp task in_reduction(+ : sum)
    sum += i;
  }
  CHECK_EQUAL(sum, 5050);
}

static void events(void) {
  int after = 0, body = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    omp_event_handle_t event;
#pragma omp task detach(event) shared(body)
#pragma omp atomic
    body++;
#pragma omp task shared(after)
    {
#pragma omp atomic write
      after = 1;
      omp_fulfill_event(event);
    }
#pragma omp taskwait
    CHECK_EQUAL(after, 1);
    CHECK_EQUAL(body, 1);
  }
}

/* A taskwait that ran an unrelated task here would take the lock twice on one thread and hang. */
static void no_unrelated(void) {
  omp_lock_t lock;
  int entered = 0;
  omp_init_lock(&lock);
#pragma omp parallel num_threads(4)
  for (int i = 0; i < 50; i++) {
#pragma omp task shared(lock, entered)
    {
      omp_set_lock(&lock);
#pragma omp task
      {
      }
#pragma omp taskwait
      entered++;
      omp_unset_lock(&lock);
    }
  }
  CHECK_EQUAL(entered, 200);
  omp_destroy_lock(&lock);
}

/* Tasks that run at once have children that outlive them, and hold what they took. */
/* inoutset, which this compiler cannot say: a dependence object as later ones write it. The tasks of a set do not wait for each
 * other (the first one's event is the second one's), but for what came before, and what comes after waits for both. */
static void sets(void) {
  int x = 0;
  void *object[2] = {&x, (void *)5};
  omp_depend_t *set = (omp_depend_t *)object;
  int stage = 0, wrong = 0;
#pragma omp parallel
#pragma omp single
  for (int round = 0; round < 50; round++) {
    omp_event_handle_t event;
    stage = 0;
#pragma omp task depend(out : x) shared(stage)
    __atomic_fetch_add(&stage, 1, __ATOMIC_SEQ_CST);
#pragma omp task depend(depobj : *set) detach(event) shared(stage, wrong)
    if (__atomic_fetch_add(&stage, 10, __ATOMIC_SEQ_CST) % 10 != 1) wrong++;
#pragma omp task depend(depobj : *set) firstprivate(event) shared(stage, wrong)
    {
      if (__atomic_fetch_add(&stage, 10, __ATOMIC_SEQ_CST) % 10 != 1) wrong++;
      omp_fulfill_event(event);
    }
#pragma omp task depend(in : x) shared(stage, wrong)
    if (__atomic_fetch_add(&stage, 100, __ATOMIC_SEQ_CST) % 100 != 21) wrong++;
#pragma omp task depend(depobj : *set) shared(stage, wrong)
    if (__atomic_fetch_add(&stage, 1000, __ATOMIC_SEQ_CST) % 1000 != 121) wrong++;
#pragma omp task depend(depobj : *set) shared(stage, wrong)
    if (__atomic_fetch_add(&stage, 1000, __ATOMIC_SEQ_CST) % 1000 != 121) wrong++;
#pragma omp task depend(inout : x) shared(stage, wrong)
    if (__atomic_load_n(&stage, __ATOMIC_SEQ_CST) != 2121) wrong++;
#pragma omp taskwait
  }
  CHECK_EQUAL(wrong, 0);
}

static void included(void) {
  int done = 0;
  omp_nest_lock_t lock;
  omp_init_nest_lock(&lock);
#pragma omp parallel num_threads(4)
  for (int i = 0; i < 20; i++) {
#pragma omp task shared(done, lock) if (0)
    {
      omp_set_nest_lock(&lock);
#pragma omp task shared(done) final(1)
      {
        for (int k = 0; k < 5; k++) {
#pragma omp task shared(done)
#pragma omp atomic
          done++;
        }
        CHECK(omp_in_final());
      }
#pragma omp task shared(done) if (0)
      for (int k = 0; k < 5; k++) {
#pragma omp task shared(done)
        {
#pragma omp task shared(done)
#pragma omp atomic
          done++;
        }
      }
      omp_set_nest_lock(&lock);
      omp_unset_nest_lock(&lock);
      omp_unset_nest_lock(&lock);
    }
  }
  CHECK_EQUAL(done, 4 * 20 * 10);
  omp_destroy_nest_lock(&lock);
}

/* Outside any region tasks run at once, and an unmet dependence is waited for. */
static void serial(void) {
  int value = 0;
#pragma omp task shared(value) depend(out : value)
  value = 1;
#pragma omp task shared(value) depend(in : value)
  CHECK_EQUAL(value, 1);
#pragma omp taskwait
}

int main(void) {
  serial();
  trees();
  left_behind();
  chains();
  groups();
  loops();
  reductions();
  events();
  no_unrelated();
  sets();
  included();
  puts("ok");
  return 0;
}
