/* D2: whatever a member of a region starts, programs by whatever call and threads, has the mask that this program was started with; the member has
 * its own again afterwards. Usage: starters bound|free (what the other member must be) | starters becomes (the other member
 * executes a program in the middle of a region) | starters is MASK (the program that is started). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SIZE = 1024 };
static char whole[SIZE], self[SIZE], command[3 * SIZE];
static int wrong;

static void write_mask(char *text) {
  cpu_set_t mask;
  size_t length = 0;
  text[0] = 0;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && length + 8 < SIZE; cpu++)
    if (CPU_ISSET(cpu, &mask)) length += (size_t)snprintf(text + length, SIZE - length, "%d,", cpu);
}

static void expect(int is_so, const char *what, const char *who) {
  if (is_so) return;
  printf("%s, member %d: %s\n", who, omp_get_thread_num(), what);
  wrong = 1;
}

static void ended_well(int status, const char *who) {
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "another mask than this program had", who);
}

static void waited_for(pid_t child, const char *who) {
  int status = -1;
  expect(child > 0 && waitpid(child, &status, 0) == child, "no child", who);
  ended_well(status, who);
}

static int become(int way, char **arguments) {
  switch (way) {
    case 0: return execve(self, arguments, environ);
    case 1: return execv(self, arguments);
    case 2: return execvp(self, arguments);
    case 3: return execvpe(self, arguments, environ);
    case 4: return execl(self, self, "is", arguments[2], (char *)0);
    case 5: return execle(self, self, "is", arguments[2], (char *)0, environ);
    case 6: return execlp(self, self, "is", arguments[2], (char *)0);
    default: return fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ);
  }
}

static const char *const WAYS[] = {"execve", "execv", "execvp", "execvpe", "execl", "execle", "execlp", "fexecve"};

/* A processor of this program that is not the only one of `mask`. */
static int another(const char *mask) {
  int found = atoi(whole);
  if (found != atoi(mask)) return found;
  const char *next = strchr(whole, ',');
  return next && next[1] ? atoi(next + 1) : found;
}

static void *write_own(void *mask) {
  write_mask(mask);
  return mask;
}

static void start_all(const char *own) {
  char *arguments[] = {self, "is", whole, NULL}, *none[] = {"none", NULL}, mask[SIZE], chosen[32];
  pid_t child = 0;
  for (int way = 0; way < 8; way++) {
    child = vfork();
    if (child == 0) {
      become(way, arguments);
      _exit(127);
    }
    waited_for(child, WAYS[way]);
  }
  child = vfork();
  if (child == 0) {
    if (execv("/no/such/program", none) == 0 || errno != ENOENT) _exit(126);
    execv(self, arguments);
    _exit(127);
  }
  waited_for(child, "the second exec");

  /* The child's own choice stays. */
  volatile int cpu = another(own);
  snprintf(chosen, sizeof chosen, "%d,", cpu);
  char *with_choice[] = {self, "is", chosen, NULL};
  child = vfork();
  if (child == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) _exit(126);
    execv(self, with_choice);
    _exit(127);
  }
  waited_for(child, "exec with a mask of its own");
  write_mask(mask);
  expect(strcmp(mask, own) == 0, "not its own processors after vfork and exec", mask);

  child = fork();
  if (child == 0) {
    execl(self, self, "is", whole, (char *)0);
    _exit(127);
  }
  waited_for(child, "fork");
#if __GLIBC_PREREQ(2, 34)
  child = _Fork();
  if (child == 0) {
    execv(self, arguments);
    _exit(127);
  }
  waited_for(child, "_Fork");
#endif

  expect(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0, "refused", "posix_spawn");
  waited_for(child, "posix_spawn");
  expect(posix_spawnp(&child, self, NULL, NULL, arguments, environ) == 0, "refused", "posix_spawnp");
  waited_for(child, "posix_spawnp");
  expect(posix_spawn(&child, "/no/such/program", NULL, NULL, none, environ) == ENOENT, "no error", "posix_spawn");
  ended_well(system(command), "system");
  int status = system("exit 7");
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "another code", "system");
  FILE *pipe = popen(command, "r");
  expect(pipe != NULL, "no pipe", "popen");
  if (pipe) ended_well(pclose(pipe), "popen");
  pthread_t thread;
  void *of_thread = NULL;
  expect(pthread_create(&thread, NULL, write_own, mask) == 0, "refused", "pthread_create");
  pthread_join(thread, &of_thread);
  expect(of_thread == mask && strcmp(mask, whole) == 0, "a thread has another mask than this program had", mask);
  errno = 0;
  expect(popen("true", "?") == NULL && errno == EINVAL, "another error", "popen");
  write_mask(mask);
  expect(strcmp(mask, own) == 0, "not its own processors after system and popen", mask);
}

static void *sleep_long(void *unused) {
  system("exec sleep 60");
  return unused;
}

/* A thread of the program that is cancelled while it waits in system unwinds through whatever stands there. */
static void cancel_in_system(void) {
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, sleep_long, NULL) != 0) exit(2);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  expect(result == PTHREAD_CANCELED, "not cancelled", "system");
}

/* The processors of the second member of a region. */
static void find_second(char *mask) {
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) write_mask(mask);
}

/* Regions until the second member is bound, or not: a new thread finds its place at its second look. */
static int is_second(int bound, char *mask) {
  for (int tries = 0; tries < 10000; tries++) {
    find_second(mask);
    if ((strcmp(mask, whole) != 0) == bound) return 1;
    usleep(1000);
  }
  return 0;
}

int main(int count, char **arguments) {
  write_mask(whole);
  if (count == 3) return strcmp(whole, arguments[2]) != 0;
  if (count != 2 || readlink("/proc/self/exe", self, SIZE - 1) < 0) return 2;
  snprintf(command, sizeof command, "'%s' is %s", self, whole);
  int bound = strcmp(arguments[1], "free") != 0, becomes = strcmp(arguments[1], "becomes") == 0;
  char second[SIZE] = "", later[SIZE] = "";
  expect(is_second(bound, second), "not bound as it should be", second);
#pragma omp parallel num_threads(2)
  {
    char own[SIZE], *next[] = {self, "is", whole, NULL};
    write_mask(own);
    if (omp_get_thread_num() == 1) expect(strcmp(own, second) == 0, "elsewhere than before", own);
    if (becomes && omp_get_thread_num() == 1) execv(self, next);
    while (becomes) pause();
    start_all(own);
  }
  cancel_in_system();
  /* An exec that fails leaves the thread where it may be, until it looks where it belongs. */
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) {
    char *none[] = {"none", NULL};
    expect(execv("/no/such/program", none) == -1 && errno == ENOENT, "another error", "exec");
  }
  expect(is_second(bound, later) && strcmp(later, second) == 0, "not back on its processor", "exec that failed");
  if (!wrong) puts("ok");
  return wrong;
}
