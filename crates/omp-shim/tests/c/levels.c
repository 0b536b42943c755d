/* Prints what regions of one thread and of the default size, and regions inside them, are; but not how many threads a team of
 * default size has, which may follow the load. Same text at every load. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

static char text[4096];

static void note(const char *what) {
  size_t length = strlen(text);
  snprintf(text + length, sizeof text - length, "%s: level %d, active %d, parallel %d\n", what, omp_get_level(),
           omp_get_active_level(), omp_in_parallel() != 0);
}

/* Regions inside the current one; those of default size inside an active one have one thread. */
static void inside(void) {
  int exact = 0, standard = 0;
#pragma omp parallel num_threads(2)
#pragma omp master
  {
    note("  inner exact");
    exact = omp_get_num_threads();
  }
#pragma omp parallel
#pragma omp master
  {
    note("  inner default");
    standard = omp_get_num_threads();
  }
  size_t length = strlen(text);
  snprintf(text + length, sizeof text - length, "  exact has %d, default %s\n", exact,
           omp_get_active_level() > 0 ? (standard == 1 ? "one" : "more") : "its own");
}

int main(void) {
  note("outside");
#pragma omp parallel num_threads(1)
  {
    note("one");
    inside();
  }
#pragma omp parallel if (0)
  {
    note("if");
    inside();
  }
#pragma omp parallel
#pragma omp master
  {
    note("default");
    inside();
  }
#pragma omp parallel num_threads(2)
#pragma omp master
  {
    note("exact");
    inside();
  }
  note("outside");
  fputs(text, stdout);
  return 0;
}
