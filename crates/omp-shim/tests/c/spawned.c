/* Members of a region start programs by posix_spawn and vfork; those have the mask that this program was started with, and
 * the region goes on. */
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static void ended_well(pid_t child) {
  int status = 0;
  CHECK(child > 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), 0);
}

/* The program again: its only work is to compare its mask with the argument. */
static void start(char *self, char *mask, int by_vfork) {
  char *arguments[] = {self, mask, NULL};
  pid_t child = 0;
  if (by_vfork) {
    child = vfork();
    if (child == 0) {
      execv(self, arguments);
      _exit(127);
    }
  } else {
    CHECK_EQUAL(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
  }
  ended_well(child);
}

static void write_mask(char *text, size_t size) {
  cpu_set_t mask;
  CHECK_EQUAL(sched_getaffinity(0, sizeof mask, &mask), 0);
  size_t length = 0;
  for (int cpu = 0; cpu < 256 && length + 8 < size; cpu++)
    if (CPU_ISSET(cpu, &mask)) length += (size_t)snprintf(text + length, size - length, "%d,", cpu);
}

int main(int count, char **arguments) {
  char mask[1024] = "";
  write_mask(mask, sizeof mask);
  if (count == 2) return strcmp(mask, arguments[1]) != 0;
  for (int by_vfork = 0; by_vfork < 2; by_vfork++) {
    int members = 0;
#pragma omp parallel num_threads(4) reduction(+ : members)
    {
      /* One after the other: vfork suspends its thread only. */
#pragma omp critical
      start("/proc/self/exe", mask, by_vfork);
#pragma omp barrier
      members += 1;
    }
    CHECK_EQUAL(members, 4);
  }
  puts("ok");
  return 0;
}
