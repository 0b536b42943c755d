/* Regions that all say num_threads: 10 us of work for each of two members, by one thread or by two. Prints the seconds that they
 * take. Usage: pairs calibrate, which prints the STEPS of 10 us; pairs THREADS REGIONS STEPS. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile double sink;

static void work(long steps) {
  double x = 1;
  for (long i = 0; i < steps; i++) x = x * 0.999999 + 0.5;
  sink = x;
}

static void regions(int threads, long count, long steps) {
  for (long i = 0; i < count; i++) {
    if (threads == 1) {
      work(steps);
      work(steps);
      continue;
    }
#pragma omp parallel num_threads(threads)
    work(steps);
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "calibrate")) {
    double least = 1;
    for (int i = 0; i < 1000; i++) {
      double begin = omp_get_wtime();
      work(10000);
      double took = omp_get_wtime() - begin;
      least = took < least ? took : least;
    }
    printf("%ld\n", (long)(10000 * 10e-6 / least));
    return 0;
  }
  if (argc != 4) return 2;
  int threads = atoi(argv[1]);
  long count = atol(argv[2]), steps = atol(argv[3]);
  regions(threads, 100, steps);
  double begin = omp_get_wtime();
  regions(threads, count, steps);
  printf("%.6f\n", omp_get_wtime() - begin);
  return 0;
}
