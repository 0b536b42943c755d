/* What dependences order: iterators, exclusive writers, dependence objects, taskwait with depend. */
#include <omp.h>
#include <stdio.h>

enum { N = 12 };
static int cells[N], stage, wrong;

static void at(int expected_least) {
  if (__atomic_load_n(&stage, __ATOMIC_SEQ_CST) < expected_least)
#pragma omp atomic
    wrong++;
}

int main(void) {
  for (int threads = 1; threads <= 4; threads++) {
    int inside = 0, x = threads - threads, y = 0, exclusive = 0, sets = 0, seen = -1;
    wrong = stage = x;
    omp_depend_t first, second;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
      for (int i = 0; i < N; i++) {
#pragma omp task depend(out : cells[i]) firstprivate(i)
        {
          cells[i] = i;
          __atomic_fetch_add(&stage, 1, __ATOMIC_SEQ_CST);
        }
      }
#pragma omp task depend(iterator(i = 0 : N), in : cells[i])
      at(N);
#pragma omp task depend(iterator(int i = N - 1 : 0 : -2, unsigned char j = 0 : 1), in : cells[i], cells[i - j])
      at(N / 2);
#pragma omp task depend(iterator(i = 0 : 0), in : cells[i])
      at(0);
#pragma omp taskwait depend(iterator(i = 0 : N), inout : cells[i])
      at(N);
      for (int i = 0; i < 20; i++) {
#pragma omp task depend(mutexinoutset : x) depend(in : y) shared(inside, exclusive)
        {
          if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST) != 0)
#pragma omp atomic
            wrong++;
          exclusive++;
          __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
        }
      }
#pragma omp task depend(inout : x) shared(exclusive)
      if (exclusive != 20) wrong += 100;
      for (int i = 0; i < 10; i++) {
#pragma omp task depend(in : x) shared(sets)
#pragma omp atomic
        sets++;
      }
#pragma omp task depend(out : x) shared(sets)
      if (sets != 10) wrong += 1000;
#pragma omp depobj(first) depend(inout : y)
#pragma omp depobj(second) depend(in : y)
#pragma omp task depend(depobj : first) shared(y)
      y = 5;
#pragma omp task depend(depobj : second) shared(y, seen)
      seen = y;
#pragma omp depobj(second) update(mutexinoutset)
#pragma omp task depend(depobj : second) depend(out : x) shared(y, seen)
      if (seen != 5) wrong += 10000;
#pragma omp depobj(second) update(inout)
#pragma omp task depend(depobj : first, second) shared(y)
      y += exclusive + sets;
#pragma omp depobj(first) destroy
#pragma omp depobj(second) destroy
#pragma omp task depend(in : y) if (0) shared(y)
      y++;
#pragma omp taskwait
    }
    printf("%d: wrong %d y %d seen %d\n", threads, wrong, y, seen);
  }
  return 0;
}
