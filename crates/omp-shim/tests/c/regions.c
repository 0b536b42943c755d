/* Teams have the size that was asked for, each member has its own number, and inner regions know their ancestors. */
#include "check.h"
#include <omp.h>
#include <string.h>

static void exact_size(int threads) {
  int seen[64];
  memset(seen, 0, sizeof seen);
#pragma omp parallel num_threads(threads)
  {
    CHECK_EQUAL(omp_get_num_threads(), threads);
#pragma omp atomic
    seen[omp_get_thread_num()]++;
  }
  for (int i = 0; i < 64; i++) CHECK_EQUAL(seen[i], i < threads ? 1 : 0);
}

static void serial_by_if(int condition) {
  int members = 0;
#pragma omp parallel if (condition) num_threads(4) reduction(+ : members)
  members += 1;
  CHECK_EQUAL(members, condition ? 4 : 1);
}

static void nested(void) {
  int leaves = 0;
  omp_set_max_active_levels(3);
#pragma omp parallel num_threads(3) reduction(+ : leaves)
  {
    int outer = omp_get_thread_num();
#pragma omp parallel num_threads(2) reduction(+ : leaves)
    {
      CHECK_EQUAL(omp_get_level(), 2);
      CHECK_EQUAL(omp_get_active_level(), 2);
      CHECK_EQUAL(omp_get_ancestor_thread_num(0), 0);
      CHECK_EQUAL(omp_get_ancestor_thread_num(1), outer);
      CHECK_EQUAL(omp_get_ancestor_thread_num(2), omp_get_thread_num());
      CHECK_EQUAL(omp_get_ancestor_thread_num(3), -1);
      CHECK_EQUAL(omp_get_team_size(0), 1);
      CHECK_EQUAL(omp_get_team_size(1), 3);
      CHECK_EQUAL(omp_get_team_size(2), 2);
      leaves += 1;
    }
  }
  CHECK_EQUAL(leaves, 6);
  omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(2)
  {
    CHECK_EQUAL(omp_get_num_threads(), 1);
    CHECK_EQUAL(omp_get_level(), 2);
    CHECK_EQUAL(omp_get_active_level(), 1);
  }
}

static int number;
#pragma omp threadprivate(number)

/* A smaller team in between does not change which thread is which. */
static void identity(void) {
#pragma omp parallel num_threads(4)
  number = 100 + omp_get_thread_num();
#pragma omp parallel num_threads(1)
  CHECK_EQUAL(number, 100);
#pragma omp parallel num_threads(2)
  CHECK_EQUAL(number, 100 + omp_get_thread_num());
#pragma omp parallel num_threads(4)
  CHECK_EQUAL(number, 100 + omp_get_thread_num());
}

/* Control variables belong to the task that sets them. */
static void scopes(void) {
  omp_set_num_threads(5);
#pragma omp parallel num_threads(2)
  {
    CHECK_EQUAL(omp_get_max_threads(), 5);
    omp_set_num_threads(7 + omp_get_thread_num());
#pragma omp barrier
    CHECK_EQUAL(omp_get_max_threads(), 7 + omp_get_thread_num());
  }
  CHECK_EQUAL(omp_get_max_threads(), 5);
}

int main(void) {
  CHECK(!omp_in_parallel());
  CHECK_EQUAL(omp_get_level(), 0);
  for (int threads = 1; threads <= 64; threads = threads < 8 ? threads + 1 : threads * 2) exact_size(threads);
  for (int round = 0; round < 200; round++) exact_size(round % 5 + 1);
  serial_by_if(0);
  serial_by_if(1);
  nested();
  identity();
  scopes();
  puts("ok");
  return 0;
}
