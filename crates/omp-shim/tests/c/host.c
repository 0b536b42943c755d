/* A program with the static library inside, and a plugin (the argument) that brings the drop-in one. */
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>

static int threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

int main(int count, char **arguments) {
  CHECK_EQUAL(count, 2);
  int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
  sum += 1;
  CHECK_EQUAL(sum, 3);
  int before = threads();
  void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fprintf(stderr, "%s\n", dlerror());
  CHECK(plugin);
  int (*sum_to)(int) = (int (*)(int))dlsym(plugin, "sum_to");
  CHECK(sum_to);
  for (int round = 0; round < 20; round++) CHECK_EQUAL(sum_to(100), 5050);
  CHECK_EQUAL(threads(), before);
  puts("ok");
  return 0;
}
