/* Tasks in depth: chains, untied and final trees with yields, taskloops of all clauses, locks that tasks own. */
#include <omp.h>
#include <stdio.h>

static long count;

static void add(long more) {
#pragma omp atomic
  count += more;
}

static void chain(int left) {
  add(1);
  if (left == 0) return;
#pragma omp task firstprivate(left) if (left % 3)
  chain(left - 1);
  if (left % 7 == 0) {
#pragma omp taskwait
  }
}

static void tree(int depth) {
  if (depth > 0) {
#pragma omp task final(depth < 4) untied mergeable
    {
      tree(depth - 1);
#pragma omp taskyield
      tree(depth - 1);
    }
#pragma omp taskwait
  }
  add(1);
}

static void show(const char *what) {
  printf("%s %ld\n", what, count);
  count = 0;
}

static void loops(int threads) {
#pragma omp parallel num_threads(threads)
#pragma omp single nowait
  {
#pragma omp taskloop nogroup grainsize(1) untied
    for (int i = 0; i < 100; i++) {
#pragma omp task
      add(1);
    }
#pragma omp taskloop num_tasks(1000) priority(5)
    for (int i = 0; i < 10; i++) add(1);
#pragma omp taskloop grainsize(1000)
    for (long long i = -3; i < 3; i += 2) add(1);
#pragma omp taskloop simd
    for (int i = 5; i < 5; i++) count += 1000;
#pragma omp taskloop grainsize(strict : 3)
    for (int i = 0; i < 10; i++) add(1);
  }
  show("taskloops");
#pragma omp parallel master taskloop simd num_threads(threads) reduction(+ : count)
  for (int i = 0; i < 100; i++) count += i;
  show("parallel master taskloop simd");
#pragma omp parallel masked taskloop num_threads(threads) collapse(3) filter(threads - 1)
  for (int i = 0; i < 4; i++)
    for (int j = 3; j > 0; j--)
      for (unsigned k = 0; k < 5; k += 2) add(1);
  show("parallel masked taskloop");
}

static void simd(int threads) {
  int x[16] = {0};
#pragma omp parallel num_threads(threads)
  {
#pragma omp for simd ordered schedule(simd : dynamic, 5)
    for (int i = 0; i < 16; i++) {
      x[i] = i;
#pragma omp ordered simd
      x[i] *= 2;
    }
#pragma omp for simd linear(count : 2) schedule(static, 3)
    for (int i = 0; i < 16; i++) {
      x[i] += (int)count;
      count += 2;
    }
  }
  for (int i = 0; i < 16; i++) count += x[i] * (i + 1);
  show("simd");
}

static void owners(int threads) {
  omp_nest_lock_t lock;
  omp_init_nest_lock(&lock);
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int i = 0; i < 20; i++) {
#pragma omp task shared(lock)
    {
      omp_set_nest_lock(&lock);
      omp_set_nest_lock(&lock);
      count++;
#pragma omp task if (0)
      count++;
      omp_unset_nest_lock(&lock);
      omp_unset_nest_lock(&lock);
    }
  }
  omp_destroy_nest_lock(&lock);
  show("locks");
}

int main(void) {
  for (int threads = 1; threads <= 4; threads++) {
#pragma omp parallel num_threads(threads)
#pragma omp single
    chain(3000);
    show("chain");
#pragma omp parallel num_threads(threads)
#pragma omp single
    tree(8);
    show("tree");
    loops(threads);
    simd(threads);
    owners(threads);
  }
  return 0;
}
