/* Ordered loops over unsigned numbers in a team of one: gcc passes vectors outside of the loop for some sinks. */
#include <stdio.h>

int main(void) {
  int done = 0;
#pragma omp parallel num_threads(1)
  {
#pragma omp for ordered(2) schedule(dynamic)
    for (int i = 0; i < 3; i++)
      for (unsigned k = 1; k < 15; k++) {
#pragma omp ordered depend(sink : i - 1, k - 1)
        done++;
#pragma omp ordered depend(source)
      }
#pragma omp for ordered(1)
    for (unsigned long long i = ~0ULL - 2; i > ~0ULL - 202; i--) {
#pragma omp ordered depend(sink : i + 1)
      done++;
#pragma omp ordered depend(source)
    }
  }
  printf("%d\n", done);
  return 0;
}
