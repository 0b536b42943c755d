/* Hundreds of threads that the program makes, each master of some regions: afterwards there are not more threads, and not much
 * more memory, than after the first of them; and omp_pause_resource gives back the rest. */
#include "check.h"
#include <dirent.h>
#include <omp.h>
#include <pthread.h>

static void *master(void *unused) {
  (void)unused;
  int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
  sum += 1;
  CHECK_EQUAL(sum, 3);
#pragma omp parallel num_threads(2)
#pragma omp task shared(sum)
#pragma omp atomic
  sum++;
  CHECK_EQUAL(sum, 5);
  return NULL;
}

static void generation(void) {
  enum { COUNT = 8 };
  pthread_t threads[COUNT];
  for (int i = 0; i < COUNT; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, master, NULL), 0);
  for (int i = 0; i < COUNT; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static int threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

/* Resident memory in KiB. */
static long resident(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static __attribute__((noinline)) void deep(void) {
  volatile char block[1 << 20];
  for (size_t i = 0; i < sizeof block; i += 4096) block[i] = 1;
}

static void paused(void) {
#pragma omp parallel num_threads(9)
  if (omp_get_thread_num() != 0) deep();
  long deep_down = resident();
  int failed = 0;
#pragma omp parallel num_threads(2) reduction(+ : failed)
  failed += omp_pause_resource(omp_pause_soft, omp_get_initial_device()) != 0;
  CHECK_EQUAL(failed, 2);
  CHECK_EQUAL(omp_pause_resource_all(omp_pause_hard), 0);
  CHECK(resident() < deep_down - 6 * 1024);
  master(NULL);
  CHECK_EQUAL(omp_pause_resource(omp_pause_soft, omp_get_initial_device()), 0);
  master(NULL);
}

int main(void) {
  for (int i = 0; i < 10; i++) generation();
  int threads_before = threads();
  long before = resident();
  for (int i = 0; i < 60; i++) generation();
  CHECK(threads() <= threads_before + 16);
  CHECK(resident() < before + 4096);

  /* Deep calls of the members. */
  paused();
  puts("ok");
  return 0;
}
