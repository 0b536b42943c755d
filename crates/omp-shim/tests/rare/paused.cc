// omp_pause_resource: threadprivate data of all threads but the initial one begin anew; constructors and destructors run.
#include <atomic>
#include <cstdio>
#include <omp.h>

static std::atomic<int> made, ended;
struct Object {
  int value;
  Object() : value(7) { made++; }
  Object(const Object &other) : value(other.value) { made++; }
  Object &operator=(const Object &) = default;
  ~Object() { ended++; }
};
extern Object object;
static int plain = 3, copied = 5;
#pragma omp threadprivate(object, plain, copied)
Object object;

static void show(const char *when) {
  int objects[4], plains[4], copies[4];
#pragma omp parallel num_threads(4)
  {
    int id = omp_get_thread_num();
    objects[id] = object.value, plains[id] = plain, copies[id] = copied;
  }
  printf("%s:", when);
  for (int id = 0; id < 4; id++) printf(" %d %d %d", objects[id], plains[id], copies[id]);
  puts("");
}

static void change() {
#pragma omp parallel num_threads(4)
  object.value = plain = 100 + omp_get_thread_num();
  copied = 50;
#pragma omp parallel num_threads(4) copyin(copied)
  copied += omp_get_thread_num();
}

int main() {
  change();
  show("before");
  printf("%d\n", omp_pause_resource(omp_pause_soft, omp_get_initial_device()));
  show("after soft");
  change();
  show("changed");
  printf("%d\n", omp_pause_resource(omp_pause_hard, omp_get_initial_device()));
  show("after hard");
  for (int round = 0; round < 20; round++) {
    change();
    if (omp_pause_resource_all(omp_pause_soft) != 0) puts("refused");
  }
  show("after all");
#pragma omp parallel num_threads(4)
  if (omp_get_thread_num() == 2) printf("inside %d\n", omp_pause_resource_all(omp_pause_hard) != 0);
  show("after all");
  // Threads end when they come to it.
  for (int tries = 0; tries < 100000000 && made - ended != 4; tries++) {}
  printf("%d objects\n", made - ended);
}
