/* A task whose children use a million addresses, a few at a time: what is known of those that are done is forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ADDRESSES = 1000000, AT_ONCE = 1000 };

int main(void) {
  char *cells = calloc(ADDRESSES, 1);
  long sum = 0;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
#pragma omp parallel
#pragma omp single
  for (int i = 0; i < ADDRESSES; i++) {
#pragma omp task depend(out : cells[i]) firstprivate(i)
    cells[i] = 1;
    if (i % AT_ONCE == AT_ONCE - 1) {
#pragma omp taskwait
    }
  }
  for (int i = 0; i < ADDRESSES; i++) sum += cells[i];
  getrusage(RUSAGE_SELF, &after);
  free(cells);
  printf("%ld, less than 20 MB: %d\n", sum, after.ru_maxrss - before.ru_maxrss < 20000);
  return 0;
}
