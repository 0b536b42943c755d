/* Critical regions and locks exclude, single elects one, barriers separate, reductions add up. */
#include "check.h"
#include <omp.h>

enum { ROUNDS = 2000 };

static void exclusion(void) {
  volatile long plain = 0, named = 0, locked = 0, nested = 0;
  long double wide = 0;
  omp_lock_t lock;
  omp_nest_lock_t nest;
  omp_init_lock(&lock);
  omp_init_nest_lock(&nest);
#pragma omp parallel num_threads(4)
  for (int i = 0; i < ROUNDS; i++) {
#pragma omp critical
    plain = plain + 1;
#pragma omp critical(name)
    named = named + 1;
#pragma omp atomic
    wide += 1;
    omp_set_lock(&lock);
    locked = locked + 1;
    omp_unset_lock(&lock);
    omp_set_nest_lock(&nest);
    CHECK_EQUAL(omp_test_nest_lock(&nest), 2);
    nested = nested + 1;
    omp_unset_nest_lock(&nest);
    omp_unset_nest_lock(&nest);
  }
  CHECK_EQUAL(plain, 4 * ROUNDS);
  CHECK_EQUAL(named, 4 * ROUNDS);
  CHECK_EQUAL((long)wide, 4 * ROUNDS);
  CHECK_EQUAL(locked, 4 * ROUNDS);
  CHECK_EQUAL(nested, 4 * ROUNDS);
  CHECK(omp_test_lock(&lock));
  CHECK(!omp_test_lock(&lock));
  omp_unset_lock(&lock);
  omp_destroy_lock(&lock);
  omp_destroy_nest_lock(&nest);
}

static void election(void) {
  int runs = 0;
#pragma omp parallel num_threads(4)
  for (int i = 0; i < ROUNDS; i++) {
    int handed;
#pragma omp single nowait
#pragma omp atomic
    runs++;
#pragma omp single copyprivate(handed)
    handed = i * 3;
    CHECK_EQUAL(handed, i * 3);
  }
  CHECK_EQUAL(runs, ROUNDS);
}

static void separation(void) {
  static int phase[4];
#pragma omp parallel num_threads(4)
  {
    int me = omp_get_thread_num();
    for (int i = 1; i <= ROUNDS; i++) {
      phase[me] = i;
#pragma omp barrier
      for (int other = 0; other < 4; other++) CHECK_EQUAL(phase[other], i);
#pragma omp barrier
    }
  }
}

static void reductions(void) {
  for (int i = 0; i < ROUNDS; i++) {
    long sum = 0;
    double product = 1;
    int most = -1;
#pragma omp parallel for num_threads(3) reduction(+ : sum) reduction(* : product) reduction(max : most)
    for (int k = 1; k <= 10; k++) {
      sum += k;
      product *= k;
      most = k > most ? k : most;
    }
    CHECK_EQUAL(sum, 55);
    CHECK_EQUAL((long)product, 3628800);
    CHECK_EQUAL(most, 10);
  }
}

int main(void) {
  exclusion();
  election();
  separation();
  reductions();
  puts("ok");
  return 0;
}
