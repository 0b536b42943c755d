/* What omp_capture_affinity makes of formats; the control variables of nested regions. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

static void capture(const char *format) {
  char text[200], small[5];
  memset(small, 'x', sizeof small);
  size_t length = omp_capture_affinity(text, sizeof text, format);
  size_t again = omp_capture_affinity(small, sizeof small, format);
  size_t none = omp_capture_affinity(NULL, 0, format);
  printf("[%s] %zu %d %d [%s] ends %d\n", text, length, again == length, none == length, small, small[4] == 0);
}

static void formats(void) {
  static const char *const all[] = {
      "plain", "%%", "%n", "%N", "%L", "%t", "%T", "%a", "%{thread_num}", "%{num_threads}", "%{nesting_level}",
      "%{team_num}", "%{num_teams}", "%{ancestor_tnum}", "%5n|", "%.5n|", "%0.5n|", "%12N|", "%0.7{num_threads}|",
      "%0.12L|", "a%nb%Nc%Ld", "%.3{thread_num}%.3{thread_num}",
  };
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) capture(all[i]);
  char format[40];
  omp_set_affinity_format("%0.4n of %N at %L");
  size_t length = omp_get_affinity_format(format, sizeof format);
  printf("%zu %s\n", length, format);
  length = omp_get_affinity_format(format, 4);
  printf("%zu %s\n", length, format);
  length = omp_get_affinity_format(NULL, 0);
  printf("%zu\n", length);
  capture(NULL);
}

static void levels(int level) {
  printf("level %d active %d threads %d of %d in %d max %d limit %d team %d/%d final %d", omp_get_level(),
         omp_get_active_level(), omp_get_thread_num(), omp_get_num_threads(), omp_in_parallel(),
         omp_get_max_threads(), omp_get_thread_limit() > 1000, omp_get_team_num(), omp_get_num_teams(), omp_in_final());
  for (int i = -1; i <= level + 1; i++) printf(" %d:%d", omp_get_ancestor_thread_num(i), omp_get_team_size(i));
  omp_sched_t kind;
  int chunk;
  omp_get_schedule(&kind, &chunk);
  printf(" schedule %x %d dynamic %d nested %d bind %d\n", kind, chunk, omp_get_dynamic(), omp_get_max_active_levels(),
         omp_get_proc_bind());
}

int main(void) {
  formats();
  levels(0);
  omp_set_max_active_levels(3);
  omp_set_num_threads(3);
  omp_set_schedule(omp_sched_guided | omp_sched_monotonic, 6);
#pragma omp parallel num_threads(2)
  {
#pragma omp barrier
    if (omp_get_thread_num() == 1) {
      levels(1);
      formats();
      omp_set_num_threads(2);
      omp_set_schedule(omp_sched_static, 0);
#pragma omp parallel if (0)
      {
        levels(2);
#pragma omp parallel
        {
          if (omp_get_thread_num() == 1) {
            levels(3);
#pragma omp parallel num_threads(2)
            {
              if (omp_get_thread_num() == 1) {
                levels(4);
#pragma omp parallel num_threads(2)
                levels(5); /* beyond the levels that may be active */
              }
            }
          }
        }
      }
    }
#pragma omp barrier
#pragma omp masked
    levels(1);
  }
  levels(0);
#pragma omp task final(1)
  {
    levels(0);
  }
  omp_set_schedule(omp_sched_dynamic, -5);
  levels(0);
  omp_set_num_threads(0);
  omp_set_num_threads(-3);
  levels(0);
  omp_set_max_active_levels(-1);
  omp_set_max_active_levels(0);
  levels(0);
#pragma omp parallel num_threads(4)
  {
    levels(1);
  }
  printf("%d %d %d\n", omp_pause_resource_all(omp_pause_soft), omp_pause_resource(omp_pause_hard, omp_get_initial_device()),
         omp_pause_resource(omp_pause_soft, 77) != 0);
  omp_set_max_active_levels(1);
  int members = 0;
#pragma omp parallel num_threads(3) reduction(+ : members)
  members += 1 + 10 * omp_pause_resource_all(omp_pause_soft);
  printf("%d %d %d\n", members, omp_get_max_task_priority(), omp_get_supported_active_levels() > 5);
  return 0;
}
