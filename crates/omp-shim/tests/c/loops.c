/* Every schedule runs each iteration once, in both number types, upwards and downwards, with many loops in flight. */
#include "check.h"
#include <limits.h>
#include <omp.h>
#include <string.h>

enum { N = 1000 };
static int hits[N];

static void all_once(const char *what) {
  for (int i = 0; i < N; i++) {
    if (hits[i] != 1) {
      fprintf(stderr, "%s: iteration %d ran %d times\n", what, i, hits[i]);
      _exit(1);
    }
    hits[i] = 0;
  }
}

#define HIT(i) _Pragma("omp atomic") hits[i]++

#define LOOPS(kind)                                                                  \
  static void kind##_loops(const char *what) {                                       \
    _Pragma("omp parallel num_threads(4)") {                                         \
      SCHEDULE_##kind for (long i = 0; i < N; i++) { HIT(i); }                       \
    }                                                                                \
    all_once(what);                                                                  \
    _Pragma("omp parallel num_threads(4)") {                                         \
      SCHEDULE_##kind for (long i = 7 * (N - 1); i >= 0; i -= 7) { HIT(i / 7); }     \
    }                                                                                \
    all_once(what);                                                                  \
    _Pragma("omp parallel num_threads(4)") {                                         \
      SCHEDULE_##kind for (unsigned long long i = ULLONG_MAX - 3 * N; i < ULLONG_MAX - 2; i += 3) { \
        HIT((i - (ULLONG_MAX - 3 * N)) / 3);                                         \
      }                                                                              \
    }                                                                                \
    all_once(what);                                                                  \
  }

#define SCHEDULE_static _Pragma("omp for schedule(static)")
#define SCHEDULE_static5 _Pragma("omp for schedule(static, 5)")
#define SCHEDULE_dynamic _Pragma("omp for schedule(dynamic)")
#define SCHEDULE_dynamic7 _Pragma("omp for schedule(monotonic: dynamic, 7)")
#define SCHEDULE_guided _Pragma("omp for schedule(guided, 2)")
#define SCHEDULE_automatic _Pragma("omp for schedule(auto)")
#define SCHEDULE_runtime _Pragma("omp for schedule(runtime)")
#define SCHEDULE_monotonic _Pragma("omp for schedule(monotonic: runtime)")
LOOPS(static)
LOOPS(static5)
LOOPS(dynamic)
LOOPS(dynamic7)
LOOPS(guided)
LOOPS(automatic)
LOOPS(runtime)
LOOPS(monotonic)

static void combined(void) {
#pragma omp parallel for schedule(dynamic, 3) num_threads(4)
  for (int i = 0; i < N; i++) { HIT(i); }
  all_once("parallel for dynamic");
#pragma omp parallel for schedule(guided) num_threads(4)
  for (int i = 0; i < N; i++) { HIT(i); }
  all_once("parallel for guided");
#pragma omp parallel for schedule(runtime) num_threads(4)
  for (int i = 0; i < N; i++) { HIT(i); }
  all_once("parallel for runtime");
}

/* gcc deals an automatic loop of longs out itself and says nothing at its end, although the region began inside it. */
static void automatic_among_others(void) {
  for (int round = 0; round < 30; round++) {
    int threads = 1 + round % 3;
#pragma omp parallel for schedule(auto) num_threads(threads)
    for (long i = 0; i < N; i++) { HIT(i); }
    all_once("combined auto");
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 100) nowait
      for (long i = 0; i < N / 2; i++) { HIT(i); }
#pragma omp for schedule(guided, 100)
      for (long i = N / 2; i < N; i++) { HIT(i); }
    }
    all_once("others");
  }
}

/* More loops than the ring of constructs has slots, none of them waited for. */
static void many_in_flight(void) {
  static int counts[40];
#pragma omp parallel num_threads(4)
  for (int loop = 0; loop < 40; loop++) {
#pragma omp for schedule(dynamic) nowait
    for (int i = 0; i < 10; i++) {
#pragma omp atomic
      counts[loop]++;
    }
  }
  for (int loop = 0; loop < 40; loop++) CHECK_EQUAL(counts[loop], 10);
}

static void in_order(void) {
  int last = -1;
#pragma omp parallel for ordered schedule(dynamic, 3) num_threads(4)
  for (int i = 0; i < N; i++) {
#pragma omp ordered
    {
      CHECK_EQUAL(i, last + 1);
      last = i;
    }
  }
  CHECK_EQUAL(last, N - 1);
  last = -1;
#pragma omp parallel for ordered schedule(static) num_threads(3)
  for (int i = 0; i < N; i++) {
    if (i % 2) {
#pragma omp ordered
      {
        CHECK(i > last);
        last = i;
      }
    }
  }
}

/* Cross-iteration dependences over two loops. */
static void wavefront(void) {
  enum { M = 40 };
  static int grid[M][M];
#pragma omp parallel for ordered(2) schedule(dynamic) num_threads(4)
  for (int i = 0; i < M; i++)
    for (int j = 0; j < M; j++) {
#pragma omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)
      grid[i][j] = 1 + (i ? grid[i - 1][j] : 0) + (j ? grid[i][j - 1] : 0) - (i && j ? grid[i - 1][j - 1] : 0);
#pragma omp ordered depend(source)
    }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < M; j++) CHECK_EQUAL(grid[i][j], (i + 1) * (j + 1));
}

static void sections(void) {
  int counts[6] = {0};
#pragma omp parallel num_threads(3)
  {
#pragma omp sections
    {
#pragma omp section
#pragma omp atomic
      counts[0]++;
#pragma omp section
#pragma omp atomic
      counts[1]++;
#pragma omp section
#pragma omp atomic
      counts[2]++;
#pragma omp section
#pragma omp atomic
      counts[3]++;
    }
  }
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
#pragma omp atomic
    counts[4]++;
#pragma omp section
#pragma omp atomic
    counts[5]++;
  }
  for (int i = 0; i < 6; i++) CHECK_EQUAL(counts[i], 1);
}

int main(void) {
  static_loops("static");
  static5_loops("static,5");
  dynamic_loops("dynamic");
  dynamic7_loops("dynamic,7");
  guided_loops("guided,2");
  automatic_loops("auto");
  omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
  for (int k = 0; k < 4; k++)
    for (int chunk = 0; chunk < 9; chunk += 4) {
      omp_set_schedule(kinds[k], chunk);
      runtime_loops("runtime");
      monotonic_loops("monotonic: runtime");
      combined();
    }
  automatic_among_others();
  many_in_flight();
  in_order();
  wavefront();
  sections();
  puts("ok");
  return 0;
}
