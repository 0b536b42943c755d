/* Inclusive and exclusive scans: parallel, simd, both, of several types and list items. */
#include <stdio.h>

enum { N = 1013 };
static int a[N], b[N];
static long long c[N];
static double d[N];

static unsigned long long digest(const void *data, unsigned long size) {
  unsigned long long sum = 14695981039346656037u;
  for (unsigned long i = 0; i < size; i++) sum = (sum ^ ((const unsigned char *)data)[i]) * 1099511628211u;
  return sum;
}

static void show(const char *what) {
  printf("%s %llx %llx %llx %d %lld\n", what, digest(b, sizeof b), digest(c, sizeof c), digest(d, sizeof d), b[N - 1], c[N - 1]);
}

typedef struct {
  int most, least;
} Range;
static Range join(Range x, Range y) {
  Range z = {x.most > y.most ? x.most : y.most, x.least < y.least ? x.least : y.least};
  return z;
}
#pragma omp declare reduction(span : Range : omp_out = join(omp_out, omp_in)) \
    initializer(omp_priv = (Range){-1000000, 1000000})

int main(void) {
  for (int i = 0; i < N; i++) a[i] = (i * 37) % 101 - 50;
  for (int threads = 1; threads <= 5; threads++) {
    int s = 3;
    long long p = -7;
#pragma omp parallel for reduction(inscan, + : s, p) num_threads(threads)
    for (int i = 0; i < N; i++) {
      s += a[i];
      p += 2LL * a[i];
#pragma omp scan inclusive(s, p)
      b[i] = s;
      c[i] = p;
    }
    printf("%d %lld ", s, p);
    show("inclusive");
    double x = 0.5;
    s = 0;
#pragma omp parallel for simd reduction(inscan, + : s) reduction(inscan, max : x) num_threads(threads)
    for (int i = 0; i < N; i++) {
      b[i] = s;
      d[i] = x;
#pragma omp scan exclusive(s, x)
      s += a[i];
      x = a[i] > x ? a[i] : x;
    }
    printf("%d %g ", s, x);
    show("exclusive");
    Range range = {0, 0};
    long long low = 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for reduction(inscan, span : range)
      for (int i = 0; i < N; i++) {
        range = join(range, (Range){a[i], a[i]});
#pragma omp scan inclusive(range)
        b[i] = range.most;
        c[i] = range.least;
      }
#pragma omp for reduction(+ : low)
      for (int i = 0; i < N; i++) low += c[i];
    }
    printf("%d %d %lld ", range.most, range.least, low);
    show("user");
  }
  int s = 0;
#pragma omp simd reduction(inscan, + : s)
  for (int i = 0; i < N; i++) {
    b[i] = s;
#pragma omp scan exclusive(s)
    s += a[i];
  }
  show("simd");
  return 0;
}
