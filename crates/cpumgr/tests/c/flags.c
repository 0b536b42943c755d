/* D1: team members that spin on flags of the program's own. A member that were stopped while the others wait for its
 * flag would stop them all. Usage: flags SECONDS. */
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TEAM 2

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  static atomic_long turn, sum;
  long rounds = 0;
  double begin = omp_get_wtime();
  while (omp_get_wtime() - begin < seconds) {
    atomic_store(&turn, 0);
#pragma omp parallel num_threads(TEAM)
    {
      long me = omp_get_thread_num();
      for (long step = 0; step < 20; step++) {
        while (atomic_load(&turn) != step * TEAM + me) {
        }
        atomic_fetch_add(&sum, me + 1);
        atomic_fetch_add(&turn, 1);
      }
    }
    if (atomic_load(&turn) != 20 * TEAM) {
      printf("round %ld ended at turn %ld\n", rounds, atomic_load(&turn));
      return 1;
    }
    rounds++;
  }
  long expected = rounds * 20 * (TEAM * (TEAM + 1) / 2);
  if (rounds == 0 || atomic_load(&sum) != expected) {
    printf("after %ld rounds the sum is %ld and not %ld\n", rounds, atomic_load(&sum), expected);
    return 1;
  }
  fprintf(stderr, "%ld rounds\n", rounds);
  puts("ok");
  return 0;
}
