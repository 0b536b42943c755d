/* Loops with odd strides: doacross nests, non-rectangular nests, numbers at the ends of their types. */
#include <limits.h>
#include <omp.h>
#include <stdio.h>

typedef unsigned long long ull;

static ull mix(ull x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 27;
}

static void doacross(void) {
  static int grid[64][64];
#pragma omp parallel num_threads(3)
  {
#pragma omp for ordered(2) schedule(dynamic, 1)
    for (int i = 60; i > 2; i -= 3)
      for (long j = 1; j < 50; j += 7) {
#pragma omp ordered depend(sink : i + 3, j) depend(sink : i, j - 7) depend(sink : i + 6, j + 7)
        int up = i + 3 <= 60 ? grid[i + 3][j] : 1, left = j >= 8 ? grid[i][j - 7] : 1;
        grid[i][j] = (up * 31 + left * 17 + i) % 10007;
#pragma omp ordered depend(source)
      }
#pragma omp for ordered(3) schedule(static, 2)
    for (long i = 0; i < 10; i++)
      for (short j = 9; j >= 0; j -= 2)
        for (signed char k = -5; k <= 5; k += 5) {
#pragma omp ordered depend(sink : i - 1, j, k) depend(sink : i, j + 2, k - 5)
          grid[i][j] += (int)i * k + j;
#pragma omp ordered depend(source)
        }
    /* No iterations, and one. */
#pragma omp for ordered(1) schedule(guided)
    for (ull i = 5; i < 5; i++) {
#pragma omp ordered depend(sink : i - 1)
#pragma omp ordered depend(source)
    }
#pragma omp for ordered(1) schedule(runtime)
    for (ull i = ULLONG_MAX - 1; i < ULLONG_MAX; i++) {
#pragma omp ordered depend(sink : i - 1)
      grid[0][0] = 77;
#pragma omp ordered depend(source)
    }
  }
  ull sum = 0;
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) sum = mix(sum + (ull)grid[i][j]);
  printf("doacross %llx\n", sum);
}

static void triangles(void) {
  for (int kind = 1; kind <= 4; kind++) {
    omp_set_schedule((omp_sched_t)kind, 3);
    ull sum = 0, count = 0;
#pragma omp parallel for collapse(3) reduction(+ : sum, count) num_threads(kind + 1)
    for (int i = 0; i < 17; i++)
      for (int j = i; j < 2 * i + 5; j++)
        for (int k = 3 * j - 2; k > j - 10; k -= 2) {
          sum += mix((ull)(i * 10000 + j * 100 + k));
          count++;
        }
    printf("triangle %llu %llx\n", count, sum);
    sum = count = 0;
#pragma omp parallel for collapse(2) reduction(+ : sum, count) num_threads(kind)
    for (long i = 40; i > -40; i -= 9)
      for (long j = -2 * i; j < 100 - i; j += 9) {
        sum += mix((ull)(i * 1000 + j));
        count++;
      }
    printf("skewed %llu %llx\n", count, sum);
    sum = count = 0;
#pragma omp parallel for collapse(2) ordered schedule(runtime) num_threads(3)
    for (unsigned char i = 0; i < 20; i += 3)
      for (unsigned j = UINT_MAX - 30; j < UINT_MAX - 4; j += 5) {
#pragma omp ordered
        {
          sum = mix(sum + i * 1000003u + j);
          count++;
        }
      }
    printf("ordered %llu %llx\n", count, sum);
  }
}

#define ENDS(what, type, from, compare, to, step, clauses)                                       \
  do {                                                                                           \
    ull sum = 0, count = 0;                                                                      \
    clauses for (type i = (from); i compare(to); i += (step)) {                                  \
      sum += mix((ull)i);                                                                        \
      count++;                                                                                   \
    }                                                                                            \
    printf("%s %llu %llx\n", what, count, sum);                                                  \
  } while (0)
#define TEXT(...) _Pragma(#__VA_ARGS__)
#define P(...) TEXT(omp parallel for num_threads(4) reduction(+ : sum, count) schedule(__VA_ARGS__))
#define ALL(what, ...)                                                                           \
  ENDS("top " what, ull, ULLONG_MAX - 100, <, ULLONG_MAX - 2, 7, P(__VA_ARGS__));                        \
  ENDS("last " what, ull, ULLONG_MAX - 10, <, ULLONG_MAX, 1, P(__VA_ARGS__));                            \
  ENDS("wide " what, ull, 3, <, ULLONG_MAX - 5, ULLONG_MAX / 9, P(__VA_ARGS__));                         \
  ENDS("down " what, ull, 99, >, 1, -7, P(__VA_ARGS__));                                                 \
  ENDS("long " what, long, LONG_MAX - 100, <, LONG_MAX - 3, 3, P(__VA_ARGS__));                          \
  ENDS("low " what, long, LONG_MIN + 50, >, LONG_MIN + 2, -5, P(__VA_ARGS__))

static void ends(void) {
  ALL("static", static);
  ALL("static, 1", static, 1);
  ALL("static, 2147483647", static, 2147483647);
  ALL("dynamic", dynamic);
  ALL("dynamic, 5", dynamic, 5);
  ALL("guided", guided);
  ALL("guided, 4", guided, 4);
  ALL("runtime", runtime);
  ALL("monotonic", monotonic : dynamic, 2);
  ALL("nonmonotonic", nonmonotonic : guided, 3);
  ull huge = ULLONG_MAX / 2, sum = 0, count = 0;
#pragma omp parallel for schedule(dynamic, huge) reduction(+ : sum, count) num_threads(3)
  for (ull i = 5; i < 500; i += 3) sum += mix(i), count++;
#pragma omp parallel for schedule(static, huge) reduction(+ : sum, count) num_threads(3)
  for (ull i = 5; i < 500; i += 3) sum += mix(i), count++;
#pragma omp parallel for schedule(guided, huge) reduction(+ : sum, count) num_threads(3)
  for (ull i = 5; i < 500; i += 3) sum += mix(i), count++;
  long large = LONG_MAX;
#pragma omp parallel for schedule(dynamic, large) reduction(+ : sum, count) num_threads(3)
  for (long i = -5; i < 500; i += 3) sum += mix((ull)i), count++;
#pragma omp parallel for schedule(static, large) reduction(+ : sum, count) num_threads(3)
  for (long i = -5; i < 500; i += 3) sum += mix((ull)i), count++;
  printf("huge %llu %llx\n", count, sum);
}

int main(void) {
  doacross();
  triangles();
  ends();
  return 0;
}
