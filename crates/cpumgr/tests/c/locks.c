/* D1: a default-sized team that takes the locks of the C library all the time: malloc's and a stream's. A member that
 * were stopped while it holds one would stop the others. Usage: locks SECONDS. */
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  FILE *stream = tmpfile();
  if (!stream) {
    perror("tmpfile");
    return 1;
  }
  static atomic_long lines;
  long rounds = 0;
  double begin = omp_get_wtime();
  while (omp_get_wtime() - begin < seconds) {
#pragma omp parallel
    for (int i = 0; i < 200; i++) {
      size_t length = 16 + (size_t)(i * 37 % 5000);
      char *memory = malloc(length);
      memset(memory, i, length);
      fprintf(stream, "%d\n", memory[length - 1] & 0x7f);
      atomic_fetch_add(&lines, 1);
      free(memory);
    }
    rounds++;
    if (rounds % 64 == 0) { /* The file stays small. */
      rewind(stream);
    }
  }
  if (rounds == 0 || atomic_load(&lines) < rounds * 200 || atomic_load(&lines) % 200 != 0 || ferror(stream)) {
    printf("%ld lines in %ld rounds\n", atomic_load(&lines), rounds);
    return 1;
  }
  fprintf(stderr, "%ld rounds\n", rounds);
  puts("ok");
  return 0;
}
