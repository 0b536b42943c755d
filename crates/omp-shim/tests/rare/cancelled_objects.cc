// C++: objects in the argument blocks of tasks are destroyed, whether or not their group or region is cancelled before they run.
#include <cstdio>
#include <memory>
#include <omp.h>

static void group(const char *name, bool chain) {
  auto object = std::make_shared<int>(1);
  int x = 0;
  (void)x;
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup
  for (int i = 0; i < 300; i++) {
    if (chain) {
#pragma omp task firstprivate(object, i) depend(inout : x)
      if (i == 10 && *object == 1) {
#pragma omp cancel taskgroup
      }
    } else {
#pragma omp task firstprivate(object, i)
      if (i == 10 && *object == 1) {
#pragma omp cancel taskgroup
      }
    }
  }
  std::printf("%s: %ld\n", name, object.use_count());
}

int main() {
  for (int round = 0; round < 20; round++) {
    group("group", false);
    group("chain", true);
  }
  auto object = std::make_shared<int>(1);
#pragma omp parallel
  {
#pragma omp single nowait
    for (int i = 0; i < 300; i++) {
#pragma omp task firstprivate(object)
      if (*object != 1) std::puts("destroyed too early");
    }
    if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
    }
  }
  std::printf("region: %ld\n", object.use_count());
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup
  {
#pragma omp taskloop firstprivate(object) num_tasks(100) nogroup
    for (int i = 0; i < 1000; i++)
      if (i == 500 && *object == 1) {
#pragma omp cancel taskgroup
      }
  }
  std::printf("taskloop: %ld\n", object.use_count());
}
