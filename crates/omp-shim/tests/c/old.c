/* What gcc before 4.9 and before 4.4 made of OpenMP: regions in two calls, locks owned by threads. */
#include "check.h"
#include <omp.h>
#include <stdbool.h>

void GOMP_parallel_start(void (*)(void *), void *, unsigned);
void GOMP_parallel_loop_dynamic_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_static_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_runtime_start(void (*)(void *), void *, unsigned, long, long, long);
void GOMP_parallel_sections_start(void (*)(void *), void *, unsigned, unsigned);
void GOMP_parallel_end(void);
bool GOMP_loop_static_next(long *, long *);
bool GOMP_loop_runtime_next(long *, long *);
unsigned GOMP_sections_next(void);
void GOMP_sections_end_nowait(void);
bool GOMP_single_start(void);
void GOMP_task(void (*)(void *), void *, void (*)(void *, void *), long, long, bool, unsigned);
void GOMP_taskwait(void);
bool GOMP_loop_dynamic_next(long *, long *);
void GOMP_loop_end_nowait(void);
void GOMP_barrier(void);

static int members, total;

static void body(void *argument) {
  CHECK_EQUAL(omp_get_num_threads(), *(int *)argument);
  __atomic_fetch_add(&members, 1, __ATOMIC_SEQ_CST);
  GOMP_barrier();
  CHECK_EQUAL(__atomic_load_n(&members, __ATOMIC_SEQ_CST), *(int *)argument);
}

static void loop(void *unused) {
  long start, end;
  (void)unused;
  while (GOMP_loop_dynamic_next(&start, &end))
    for (long i = start; i < end; i++) __atomic_fetch_add(&total, (int)i, __ATOMIC_SEQ_CST);
  GOMP_loop_end_nowait();
}

static bool (*next)(long *, long *);
static void any_loop(void *unused) {
  long start, end;
  (void)unused;
  while (next(&start, &end))
    for (long i = start; i < end; i++) __atomic_fetch_add(&total, (int)i, __ATOMIC_SEQ_CST);
  GOMP_loop_end_nowait();
}

static void sections(void *unused) {
  unsigned section;
  (void)unused;
  while ((section = GOMP_sections_next()) != 0) __atomic_fetch_add(&total, (int)section, __ATOMIC_SEQ_CST);
  GOMP_sections_end_nowait();
}

static void add(void *argument) {
  __atomic_fetch_add(&total, *(int *)argument, __ATOMIC_SEQ_CST);
}

/* What the old compilers made of a region that was forked in a region: of two threads, of if(0), of the default size. */
static void inner(void *argument) {
  int outer = omp_get_ancestor_thread_num(1), size = *(int *)argument;
  CHECK_EQUAL(omp_get_level(), 2);
  CHECK_EQUAL(omp_get_num_threads(), size);
  CHECK_EQUAL(omp_get_team_size(2), size);
  CHECK_EQUAL(omp_get_active_level(), (omp_get_team_size(1) > 1) + (size > 1));
  CHECK(outer >= 0 && outer < omp_get_team_size(1));
  GOMP_barrier();
  if (GOMP_single_start()) {
    int one = 1;
    for (int i = 0; i < 5; i++) GOMP_task(add, &one, NULL, sizeof one, sizeof one, true, 0);
    GOMP_taskwait();
  }
  GOMP_barrier();
}

static void outer(void *argument) {
  int *sizes = argument;
  for (int i = 0; i < 3; i++) {
    GOMP_parallel_start(inner, &sizes[i], (unsigned)sizes[i]);
    inner(&sizes[i]);
    GOMP_parallel_end();
    CHECK_EQUAL(omp_get_level(), 1);
  }
  /* Regions of old and of new compilers in each other. */
  int members = 0;
#pragma omp parallel num_threads(2) reduction(+ : members)
  members += omp_get_level();
  CHECK_EQUAL(members, 4);
}

static void counted(void *unused) {
  (void)unused;
  __atomic_fetch_add(&members, 1, __ATOMIC_SEQ_CST);
}

static void nested(void) {
  int sizes[] = {2, 1, 3};
  omp_set_max_active_levels(4);
  for (int size = 1; size <= 3; size++) {
    total = 0;
    GOMP_parallel_start(outer, sizes, (unsigned)size);
    outer(sizes);
    GOMP_parallel_end();
    CHECK_EQUAL(total, size * 3 * 5);
    CHECK_EQUAL(omp_get_level(), 0);
  }
  /* The default size, which a clause, a call and the environment may change; a manager may not make it smaller now. */
  omp_set_dynamic(0);
  omp_set_num_threads(3);
  members = 0;
  GOMP_parallel_start(counted, NULL, 0);
  counted(NULL);
  CHECK_EQUAL(omp_get_num_threads(), 3);
  GOMP_parallel_end();
  CHECK_EQUAL(members, 3);
  /* What a member changes is its own. */
  GOMP_parallel_start(counted, NULL, 2);
  omp_set_num_threads(7);
  GOMP_parallel_end();
  CHECK_EQUAL(omp_get_max_threads(), 3);
}

static void begun_in_a_construct(void) {
  for (unsigned size = 1; size <= 4; size++) {
    total = 0;
    next = GOMP_loop_static_next;
    GOMP_parallel_loop_static_start(any_loop, NULL, size, 0, 101, 1, 0);
    any_loop(NULL);
    GOMP_parallel_end();
    CHECK_EQUAL(total, 5050);
    next = GOMP_loop_runtime_next;
    GOMP_parallel_loop_runtime_start(any_loop, NULL, size, 0, 101, 1);
    any_loop(NULL);
    GOMP_parallel_end();
    CHECK_EQUAL(total, 2 * 5050);
    GOMP_parallel_sections_start(sections, NULL, size, 5);
    sections(NULL);
    GOMP_parallel_end();
    CHECK_EQUAL(total, 2 * 5050 + 15);
  }
}

__asm__(".symver old_init_nest_lock, omp_init_nest_lock@OMP_1.0");
__asm__(".symver old_set_nest_lock, omp_set_nest_lock@OMP_1.0");
__asm__(".symver old_test_nest_lock, omp_test_nest_lock@OMP_1.0");
__asm__(".symver old_unset_nest_lock, omp_unset_nest_lock@OMP_1.0");
void old_init_nest_lock(void *);
void old_set_nest_lock(void *);
int old_test_nest_lock(void *);
void old_unset_nest_lock(void *);

int main(void) {
  for (int size = 1; size <= 4; size++) {
    members = total = 0;
    GOMP_parallel_start(body, &size, (unsigned)size);
    body(&size);
    GOMP_parallel_end();
    GOMP_parallel_loop_dynamic_start(loop, NULL, (unsigned)size, 0, 101, 1, 3);
    loop(NULL);
    GOMP_parallel_end();
    CHECK_EQUAL(total, 5050);
  }
  CHECK(!omp_in_parallel());
  begun_in_a_construct();
  nested();

  long long old_lock;
  old_init_nest_lock(&old_lock);
  old_set_nest_lock(&old_lock);
  /* Another task of the same thread: the owner is the thread. */
#pragma omp task shared(old_lock) if (0)
  {
    CHECK_EQUAL(old_test_nest_lock(&old_lock), 2);
    old_unset_nest_lock(&old_lock);
  }
  old_unset_nest_lock(&old_lock);

  omp_nest_lock_t lock;
  omp_init_nest_lock(&lock);
  omp_set_nest_lock(&lock);
#pragma omp task shared(lock) if (0)
  CHECK_EQUAL(omp_test_nest_lock(&lock), 0);
  omp_unset_nest_lock(&lock);
  puts("ok");
  return 0;
}
