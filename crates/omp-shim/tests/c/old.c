/* What gcc before 4.9 and before 4.4 made of OpenMP: regions in two calls, locks owned by threads. */
#include "check.h"
#include <omp.h>
#include <stdbool.h>

void GOMP_parallel_start(void (*)(void *), void *, unsigned);
void GOMP_parallel_loop_dynamic_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_end(void);
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
