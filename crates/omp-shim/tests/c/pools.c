// A library with a pool of threads, loaded late: `pools LIBRARY alone` where no manager is, `pools
// LIBRARY flip` under one whose grant goes from one processor to two and back all the time; `pools
// LIBRARY own` the same where the library has no callback; `pools LIBRARY late` the same where it
// begins with one thread; `pools LIBRARY single` the same without a manager; `pools LIBRARY closed`
// closes that; `pools LIBRARY grown` has it have more later, on one processor; `pools LIBRARY
// found` looks whether the library is known.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#define END 3000L
#define RIGHT (END * (END - 1) / 2)

static long (*sum)(long, int *, void (*)(void));
static int (*get)(void);
static void (*set)(int);
static int on_workers;

static void seen(void) {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (strncmp(name, "nanos-w-", 8) == 0) __atomic_fetch_add(&on_workers, 1, __ATOMIC_RELAXED);
}

static int call(void) {
  int jobs;
  CHECK(sum(END, &jobs, seen) == RIGHT);
  return jobs;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

// Calls until calls have gone from two jobs to one and back several times.
static void follow(void) {
  double end = now() + 20;
  int before = call(), changes = 0;
  while (changes < 6) {
    int jobs = call();
    CHECK(jobs == 1 || jobs == 2);
    changes += jobs != before;
    before = jobs;
    CHECK(now() < end);
  }
}

static void *many(void *nothing) {
  for (int i = 0; i < 300; i++) call();
  return nothing;
}

static void *nothing(void *argument) { return argument; }

static void make_threads(int count) {
  pthread_t thread;
  for (int i = 0; i < count; i++) {
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    pthread_join(thread, NULL);
  }
}

// How often the thread that follows has been given up its processor, or -1 where it is not there.
static long switches(void) {
  long sum = -1;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    char path[300], line[200];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = fopen(path, "r");
    if (!status) continue;
    int is_it = 0;
    long number;
    while (fgets(line, sizeof line, status)) {
      if (strcmp(line, "Name:\tnanos-pools\n") == 0) is_it = 1, sum = 0;
      if (is_it && sscanf(line, "voluntary_ctxt_switches: %ld", &number) == 1) sum += number;
    }
    fclose(status);
  }
  closedir(tasks);
  return sum;
}

// Until that thread sleeps: it looks for more of a library with one thread for some seconds only.
static void rests(void) {
  double end = now() + 30, same = now();
  long before = switches();
  while (now() - same < 2) {
    usleep(50000);
    long number = switches();
    if (number != before) before = number, same = now();
    CHECK(now() < end);
  }
  CHECK(before > 0);
}

static int is_over;

static void *endless(void *nothing) {
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) call();
  return nothing;
}

// Forks while other threads are in calls: the library looks that none of them runs then. It makes
// its buffers anew for the number that it has after that, which is all that calls may have.
static void fork_in_calls(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, endless, NULL) == 0);
  for (int i = 0; i < 100; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(get() != 2);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    usleep(1000);
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static int has_thread(const char *wanted) {
  char path[300], name[32] = "";
  int found = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks));) {
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE *file = fopen(path, "r");
    if (file && fgets(name, sizeof name, file)) found |= strncmp(name, wanted, strlen(wanted)) == 0;
    if (file) fclose(file);
  }
  closedir(tasks);
  return found;
}

// Becomes the same program on one processor.
static void have_one_processor(char **arguments) {
  cpu_set_t mask;
  CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
  if (CPU_COUNT(&mask) == 1) return;
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mask)) cpu++;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  CHECK(sched_setaffinity(0, sizeof mask, &mask) == 0);
  execv("/proc/self/exe", arguments);
  CHECK(!"exec");
}

// Told to have more threads than there are processors, the library has one soon.
static void grow_on_one_processor(void) {
  make_threads(3);
  set(2);
  make_threads(1);
  double end = now() + 20;
  while (get() != 1) {
    usleep(1000);
    CHECK(now() < end);
  }
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  int is_grown = strcmp(arguments[2], "grown") == 0;
  if (is_grown) have_one_processor(arguments);
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library);
  sum = (long (*)(long, int *, void (*)(void)))dlsym(library, "pool_sum");
  get = (int (*)(void))dlsym(library, "pool_get");
  set = (void (*)(int))dlsym(library, "pool_set");
  int (*has_callback)(void) = (int (*)(void))dlsym(library, "pool_has_callback");
  CHECK(sum && get && set && has_callback);
  int (*looks)(void) = (int (*)(void))dlsym(library, "pool_looks");
  int is_late = strcmp(arguments[2], "late") == 0;
  if (strcmp(arguments[2], "found") == 0) {
    CHECK(looks() > 0);
    puts("ok");
    return 0;
  }
  if (is_grown) {
    CHECK(get() == 1);
    grow_on_one_processor();
    puts("ok");
    return 0;
  }
  if (strcmp(arguments[2], "closed") == 0) {
    make_threads(3);
    CHECK(get() == 1 && looks() > 0);
    dlclose(library);
    CHECK(!dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD));
    // Nor does a thread look into what is no more, and the library is known when it comes again.
    make_threads(3);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    make_threads(3);
    looks = (int (*)(void))dlsym(library, "pool_looks");
    CHECK(looks && looks() > 0);
    dlclose(library);
    CHECK(!dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD));
    puts("ok");
    return 0;
  }
  if (is_late || strcmp(arguments[2], "single") == 0) {
    CHECK(get() == 1);
    make_threads(100);
    // Other libraries may have been loaded meanwhile.
    CHECK(looks() > 0 && looks() < 10);
    if (is_late) rests();
    // Told to have more while a call of another thread may run, it has its own threads still.
    pthread_t caller;
    CHECK(pthread_create(&caller, NULL, endless, NULL) == 0);
    usleep(20000);
    set(2);
    make_threads(1);
    if (is_late) follow();
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    pthread_join(caller, NULL);
    CHECK(!has_callback() && on_workers == 0);
    puts("ok");
    return 0;
  }
  if (strcmp(arguments[2], "alone") == 0) {
    CHECK(!has_callback() && get() == 2 && call() == 2 && on_workers == 0);
    CHECK(!has_thread("nanos-"));
    dlclose(library);
    CHECK(!dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD));
    puts("ok");
    return 0;
  }
  int is_ours = strcmp(arguments[2], "flip") == 0;
  CHECK(has_callback() == is_ours);
  follow();
  CHECK((on_workers > 0) == is_ours);

  // Several of the program's threads at once, and regions around calls.
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, many, NULL) == 0);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  // Workers of a region that is over take the request down, and only calls that run here raise it:
  // a library of the other kind then keeps what the program is left with.
#pragma omp parallel num_threads(3) if (is_ours)
  for (int i = 0; i < 50; i++) call();
  follow();

  if (is_ours) fork_in_calls();

  // A child follows as its parent does, whatever the number was.
  for (int i = 0; i < 4; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      follow();
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    call();
  }

  // A number of the program's is the most; one that the grant cannot have set is seen as such.
  while (call() != 2) {
  }
  set(4);
  double end = now() + 20;
  int most = 0;
  while (most < 2) {
    int jobs = call();
    most = jobs > most && jobs < 4 ? jobs : most;
    CHECK(now() < end);
  }

  // Closed, it stays: a call may be under way.
  dlclose(library);
  CHECK(dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD));
  call();
  puts("ok");
  return 0;
}
