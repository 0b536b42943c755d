/* D5: a gang that is out. Says "out" when all of its members run in one region, goes on with barriers and flags for
 * SECONDS, whatever happens to the manager, and prints how long the longest round took. Usage: gang SECONDS. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  double longest = 0;
  int done = 0, wrong = 0;
#pragma omp parallel num_threads(4) shared(done, longest, wrong)
  {
    long rounds = 0;
    double begin = omp_get_wtime(), last = begin;
#pragma omp master
    {
      puts("out");
      fflush(stdout);
    }
    int stop = 0;
    while (!stop) {
#pragma omp barrier
#pragma omp master
      {
        double now = omp_get_wtime();
        if (now - last > longest) longest = now - last;
        last = now;
        done = now - begin > seconds;
      }
#pragma omp barrier
      stop = done;
      rounds++;
    }
#pragma omp critical
    if (rounds < 10 || omp_get_num_threads() != 4) wrong = 1;
  }
  if (wrong) {
    puts("a member missed rounds");
    return 1;
  }
  printf("longest %.3f\nok\n", longest);
  return 0;
}
