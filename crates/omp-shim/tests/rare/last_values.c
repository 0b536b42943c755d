/* Last values, conditional ones, too: of loops, sections, simd; single copyprivate; masked; scope. */
#include <omp.h>
#include <stdio.h>

typedef struct {
  int x[20];
} Block;

static int t;

int main(void) {
  int a = -1, b = -2, c = -3;
  for (int threads = 1; threads <= 4; threads++) {
#pragma omp parallel num_threads(threads)
    {
#pragma omp for lastprivate(conditional : a) schedule(dynamic, 2)
      for (int i = 0; i < 100; i++)
        if (i % 17 == 3) a = i;
#pragma omp for lastprivate(conditional : b) schedule(static, 3)
      for (int i = 0; i < 100; i++)
        if (i == 55) b = i * threads;
#pragma omp for lastprivate(c) schedule(guided)
      for (int i = 0; i < 77; i++) c = i + threads;
    }
    printf("%d %d %d\n", a, b, c);
#pragma omp parallel for simd lastprivate(conditional : a) num_threads(threads)
    for (int i = 0; i < 64; i++)
      if (i < 40 && i % 3 == 0) a = i;
    int s = 0;
    t = 0;
#pragma omp parallel sections lastprivate(s) num_threads(threads)
    {
#pragma omp section
      s = 1;
#pragma omp section
      s = 2;
#pragma omp section
      s = 3 * threads;
    }
#pragma omp parallel num_threads(threads)
    {
#pragma omp sections lastprivate(conditional : t)
      {
#pragma omp section
        t = 11;
#pragma omp section
        if (threads > 9) t = 12;
      }
    }
    printf("%d %d %d\n", a, s, t);
    int wrong = 0;
#pragma omp parallel num_threads(threads)
    {
      Block block;
      int length = 30 + threads;
      int array[length];
      for (int i = 0; i < length; i++) array[i] = -1;
      for (int round = 0; round < 100; round++) {
#pragma omp single copyprivate(block)
        for (int i = 0; i < 20; i++) block.x[i] = round * i;
        if (block.x[19] != round * 19)
#pragma omp atomic
          wrong++;
      }
      int mine = 0;
#pragma omp masked filter(threads - 1)
      mine = 1;
#pragma omp scope reduction(+ : wrong)
      wrong += mine != (omp_get_thread_num() == threads - 1);
#pragma omp for reduction(+ : wrong)
      for (int i = 0; i < length; i++) wrong += array[i] != -1;
    }
    printf("%d\n", wrong);
    long sum = 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp loop bind(parallel) reduction(+ : sum) order(concurrent)
      for (int i = 0; i < 1000; i++) sum += i;
#pragma omp for order(concurrent) reduction(+ : sum) schedule(dynamic)
      for (int i = 0; i < 1000; i++) sum += i;
    }
    printf("%ld\n", sum);
  }
  return 0;
}
