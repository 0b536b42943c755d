/* Reductions by tasks: groups, taskloops, whole regions, loops and sections; one inside another. */
#include <omp.h>
#include <stdio.h>

typedef struct {
  long sum;
  int count;
} Total;
#pragma omp declare reduction(add : Total : omp_out.sum += omp_in.sum, omp_out.count += omp_in.count) \
    initializer(omp_priv = (Total){0, 0})

static long tree(int depth, Total *total) {
  long *sum = &total->sum;
  (void)sum;
  if (depth == 0) return 1;
  long left = 0, right = 0;
#pragma omp taskgroup task_reduction(+ : left, right)
  {
#pragma omp task in_reduction(+ : left) shared(total)
    left += tree(depth - 1, total);
#pragma omp task in_reduction(+ : right) shared(total)
    right += tree(depth - 1, total);
  }
  return left + right;
}

int main(void) {
  for (int threads = 1; threads <= 4; threads++) {
    Total total = {5, 0};
    long array[7] = {1, 2, 3, 4, 5, 6, 7}, product = 1, most = -1;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
#pragma omp taskgroup task_reduction(add : total) task_reduction(+ : array) task_reduction(max : most)
      {
#pragma omp taskloop in_reduction(add : total) grainsize(3)
        for (int i = 0; i < 100; i++) total.sum += i, total.count++;
#pragma omp taskloop in_reduction(+ : array[ : 7]) num_tasks(5)
        for (int i = 0; i < 70; i++) array[i % 7] += i;
        for (int i = 0; i < 20; i++) {
#pragma omp task in_reduction(max : most) in_reduction(add : total) if (i % 2)
          {
            most = i > most ? i : most;
            total.sum++;
#pragma omp task in_reduction(add : total) final(i > 10)
            total.count++;
#pragma omp taskwait
          }
        }
      }
#pragma omp taskloop reduction(* : product) num_tasks(4) collapse(2)
      for (int i = 0; i < 5; i++)
        for (int j = 0; j < 4; j++) product *= (i + j) % 3 + 1;
    }
    printf("%ld %d %ld %ld", total.sum, total.count, product, most);
    for (int i = 0; i < 7; i++) printf(" %ld", array[i]);
    puts("");
    long whole = 0, looped = 0, section = 0;
    unsigned char small = 0;
#pragma omp parallel num_threads(threads) reduction(task, + : whole)
    {
      if (omp_get_thread_num() == 0)
        for (int i = 0; i < 30; i++) {
#pragma omp task in_reduction(+ : whole)
          whole += i;
        }
#pragma omp for reduction(task, + : looped) reduction(task, ^ : small) schedule(dynamic, 2)
      for (int i = 0; i < 40; i++) {
#pragma omp task in_reduction(+ : looped) in_reduction(^ : small)
        looped += i, small ^= (unsigned char)i;
        looped++;
      }
#pragma omp sections reduction(task, + : section)
      {
#pragma omp section
        {
#pragma omp task in_reduction(+ : section)
          section += 3;
        }
#pragma omp section
        section += 4;
      }
#pragma omp scope reduction(task, + : section)
      {
#pragma omp task in_reduction(+ : section)
        section += 100;
      }
    }
    printf("%ld %ld %ld %d\n", whole, looped, section - 100 * threads, small);
    long leaves = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    leaves = tree(8, &total);
    printf("%ld\n", leaves);
  }
  return 0;
}
