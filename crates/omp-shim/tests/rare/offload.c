/* What OMP_TARGET_OFFLOAD=mandatory makes of devices that are not there, in the way that WAY names. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  const char *way = getenv("WAY");
  int x = 1, host = omp_get_initial_device();
  printf("%s\n", way);
#pragma omp target map(tofrom : x)
  x++;
#pragma omp target map(tofrom : x) device(host)
  x++;
#pragma omp target map(tofrom : x) device(host + 7) if (x < 0)
  x++;
  free(omp_target_alloc(8, host));
  printf("%d %d\n", x, omp_target_alloc(8, -5) == NULL);
  fflush(stdout);
  if (strcmp(way, "region") == 0) {
#pragma omp target map(tofrom : x) device(host + 1)
    x++;
  } else if (strcmp(way, "default") == 0) {
    omp_set_default_device(host + 3);
#pragma omp target map(tofrom : x)
    x++;
  } else if (strcmp(way, "data") == 0) {
#pragma omp target enter data map(to : x) device(host + 1)
  } else if (strcmp(way, "memory") == 0) {
    x += omp_target_alloc(8, host + 1) == NULL;
  }
  printf("%d\n", x);
  return 0;
}
