/* D2: a copy of many without a manager: regions of the default size for SECONDS; prints how much it did.
 * Usage: copies SECONDS. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  long rounds = 0;
  double begin = omp_get_wtime();
  while (omp_get_wtime() - begin < seconds) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < 200000; i++) sum += i % 7;
    if (sum != 599994) {
      printf("the sum is %ld\n", sum);
      return 1;
    }
    rounds++;
  }
  printf("%ld\nok\n", rounds);
  return 0;
}
