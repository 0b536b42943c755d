/* Leagues on the host: distribute with odd sizes and chunks, limits, reductions, and target regions around them. */
#include <omp.h>
#include <stdio.h>

enum { N = 1009 };
static int hits[N];

static int all(int times) {
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += hits[i] != times, hits[i] = 0;
  return wrong;
}

/* gcc allows few calls in a league itself. */
static __attribute__((noinline)) int look(int (*what)(void)) {
  return what();
}

int main(void) {
  long sum = 0;
#pragma omp teams distribute parallel for simd num_teams(3) thread_limit(2) reduction(+ : sum)
  for (int i = 0; i < N; i++) {
#pragma omp atomic
    hits[i]++;
    sum += i;
  }
  printf("%ld %d\n", sum, all(1));
#pragma omp teams num_teams(5)
  {
#pragma omp distribute dist_schedule(static, 7)
    for (int i = 0; i < N; i++)
#pragma omp atomic
      hits[i]++;
#pragma omp distribute parallel for collapse(2) schedule(dynamic, 3) num_threads(3)
    for (int i = 0; i < 1; i++)
      for (int j = N; j > 0; j--)
#pragma omp atomic
        hits[j - 1]++;
  }
  printf("%d\n", all(2));
  int teams = 0, wrong = 0, limit = 0, levels = 0;
#pragma omp teams num_teams(4 : 4) thread_limit(3) reduction(+ : teams, wrong, limit, levels)
  {
    teams++;
    wrong += omp_get_num_teams() != 4 || omp_get_team_num() < 0 || omp_get_team_num() > 3;
    limit += look(omp_get_thread_limit);
    levels += look(omp_get_level) + look(omp_in_parallel);
    int members = 0;
#pragma omp parallel reduction(+ : members) num_threads(8)
    members++;
    wrong += members > 3 || members < 1;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    wrong += omp_get_num_teams() != 4;
  }
  printf("%d %d %d %d\n", teams, wrong, limit, levels);
  omp_set_num_teams(2);
  omp_set_teams_thread_limit(5);
  printf("%d %d\n", omp_get_max_teams(), omp_get_teams_thread_limit());
  teams = limit = 0;
#pragma omp teams reduction(+ : teams, limit)
  {
    teams++;
    limit += look(omp_get_thread_limit);
  }
  printf("%d %d\n", teams, limit);
  omp_set_num_teams(0);
  omp_set_num_teams(-1);
  int x = 1, y[10] = {0};
#pragma omp target teams distribute parallel for map(tofrom : y) firstprivate(x) num_teams(2)
  for (int i = 0; i < 10; i++) y[i] = x + i + omp_is_initial_device();
  printf("%d %d\n", y[0], y[9]);
#pragma omp target data map(tofrom : x, y)
  {
#pragma omp target map(tofrom : x)
    x += 10;
#pragma omp target update from(x)
#pragma omp target nowait depend(out : x) map(tofrom : x)
    x *= 2;
#pragma omp target depend(in : x) map(tofrom : x, y)
    y[3] = x;
#pragma omp taskwait
  }
  printf("%d %d\n", x, y[3]);
  sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
  {
#pragma omp target teams loop reduction(+ : sum) map(tofrom : sum)
    for (int i = 0; i < 100; i++) sum += i;
  }
  printf("%ld\n", sum);
  printf("%d %d %d %d\n", omp_get_num_devices(), omp_get_initial_device(), omp_is_initial_device(), omp_get_device_num());
  void *there = omp_target_alloc(64, omp_get_initial_device());
  int from[4] = {1, 2, 3, 4}, to[4] = {0};
  printf("%d %d\n", there != NULL, omp_target_is_present(from, omp_get_initial_device()));
  printf("%d %d\n", omp_target_memcpy(to, from, 8, 4, 4, omp_get_initial_device(), omp_get_initial_device()), to[1] + to[2]);
  omp_target_free(there, omp_get_initial_device());
  return 0;
}
