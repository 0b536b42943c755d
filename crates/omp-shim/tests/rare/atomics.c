/* Atomic updates of all kinds, locks, critical regions with hints, threadprivate data over regions. */
#include <complex.h>
#include <omp.h>
#include <stdio.h>

static int counter = 7, passes;
#pragma omp threadprivate(counter)

int main(void) {
  long double wide = 0;
  double complex both = 0;
  float real = 0;
  unsigned char byte = 1;
  long long least = 1000, most = -1000, captured = 0, sum = 0;
  struct { int a : 5; int b : 11; } bits = {0, 0};
  omp_lock_t lock, hinted;
  omp_nest_lock_t nest;
  int excluded = 0, tried = 0;
  omp_init_lock(&lock);
  omp_init_lock(&hinted);
  omp_init_nest_lock(&nest);
#pragma omp parallel num_threads(4) reduction(+ : tried, sum)
  for (int i = 0; i < 500; i++) {
    long long before, after;
#pragma omp atomic
    wide += 0.5L;
#pragma omp atomic seq_cst
    real -= 1.0f;
#pragma omp critical(numbers) hint(omp_sync_hint_contended)
    both += 1.0 + 2.0 * I;
#pragma omp atomic
    byte = byte * 3;
#pragma omp atomic capture acq_rel
    before = captured++;
#pragma omp atomic capture
    {
      captured += 2;
      after = captured;
    }
#pragma omp atomic compare
    least = i < least ? i : least;
#pragma omp atomic compare
    if (most < i) { most = i; }
    sum += after > before;
#pragma omp critical
    bits.b++;
    if (i % 2) {
      omp_set_lock(&lock);
      excluded++;
      omp_unset_lock(&lock);
    } else {
      omp_set_nest_lock(&nest);
      tried += omp_test_nest_lock(&nest) - 2;
      omp_unset_nest_lock(&nest);
      omp_set_lock(&hinted);
      passes++;
      omp_unset_lock(&hinted);
      omp_unset_nest_lock(&nest);
    }
  }
  omp_destroy_lock(&lock);
  omp_destroy_lock(&hinted);
  omp_destroy_nest_lock(&nest);
  printf("%Lg %g %g%+gi %d %lld %lld %lld %lld %d %d %d %d\n", wide, real, creal(both), cimag(both), byte, captured, least,
         most, sum, bits.b, excluded, passes, tried);
  int wrong = 0;
  counter = 3;
#pragma omp parallel num_threads(4) copyin(counter) reduction(+ : wrong)
  {
    wrong += counter != 3;
    counter += omp_get_thread_num();
  }
#pragma omp parallel num_threads(4) reduction(+ : wrong)
  wrong += counter != 3 + omp_get_thread_num();
#pragma omp parallel num_threads(2) reduction(+ : wrong)
  wrong += counter != 3 + omp_get_thread_num();
  printf("%d\n", wrong);
  return 0;
}
