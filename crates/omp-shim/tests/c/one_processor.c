/* Two threads on one processor. Each is one thread of the kernel in all regions, with a state of its own there and in the
   program. Parts that wait for each other in ways that the library does not see go on all the same, and so do parts that
   start, signal and lock things. */
#define _GNU_SOURCE
#include "one_processor.h"
#include <errno.h>
#include <execinfo.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define OFTEN 2000
#define SOME 32

static int own;
#pragma omp threadprivate(own)

static pid_t kernel_thread(void) { return (pid_t)syscall(SYS_gettid); }

/* What the program and the kernel know of a thread is the same in each region. */
static void identity(void) {
  pid_t master = kernel_thread(), slave = 0;
  pthread_t thread = 0;
  int *errno_is_at = NULL, *own_is_at = NULL;
  for (int region = 0; region < OFTEN; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
      if (region == 0) {
        thread = pthread_self();
        slave = kernel_thread();
        errno_is_at = &errno;
        own_is_at = &own;
        errno = EDOM;
      }
      CHECK(pthread_equal(thread, pthread_self()));
      CHECK(errno_is_at == &errno && own_is_at == &own && errno == EDOM);
      CHECK_EQUAL(own++, region);
      void *low;
      size_t size;
      pthread_attr_t attributes;
      CHECK_EQUAL(pthread_getattr_np(thread, &attributes), 0);
      CHECK_EQUAL(pthread_attr_getstack(&attributes, &low, &size), 0);
      pthread_attr_destroy(&attributes);
      CHECK((char *)&size > (char *)low && (char *)&size < (char *)low + size);
      errno = EDOM;
      CHECK(kernel_thread() == slave && slave != master);
    } else {
      CHECK(!pthread_equal(thread, pthread_self()) && errno_is_at != &errno);
    }
  }
  CHECK_EQUAL(own, 0);
}

/* Each spins for the other one, before the barrier and after it: with a yield, or until it loses its processor. */
static void spin(int regions, int yields) {
  static volatile int flags[3][2];
  for (int region = 1; region <= regions; region++) {
#pragma omp parallel num_threads(2)
    {
      int id = omp_get_thread_num();
      for (int stage = 0; stage < 3; stage++) {
        flags[stage][id] = region;
        while (flags[stage][1 - id] != region)
          if (yields) sched_yield();
        if (stage < 2) {
#pragma omp barrier
        }
      }
    }
  }
}

/* Often without, and now and then with parts that wait for each other. */
static void meet(int waits) {
  static volatile int flags[2];
  flags[0] = flags[1] = 0;
#pragma omp parallel num_threads(2)
  {
    int id = omp_get_thread_num();
#pragma omp barrier
    if (waits) {
      flags[id] = 1;
      while (!flags[1 - id]) continue;
    }
#pragma omp barrier
    if (waits) {
      flags[id] = 2;
      while (flags[1 - id] != 2) continue;
    }
  }
}

/* Barriers in all places. */
static long barriers(int region, int count) {
  long sums[2] = {0, 0};
  static volatile long shared[2];
#pragma omp parallel num_threads(2)
  {
    int id = omp_get_thread_num();
    for (int step = 0; step < count; step++) {
      shared[id] = region + step;
#pragma omp barrier
      sums[id] += shared[0] + shared[1];
#pragma omp barrier
    }
  }
  CHECK_EQUAL(sums[0], sums[1]);
  return sums[0];
}

static double tiny(void) {
  volatile double least = 2.2250738585072014e-308;
  return least / 2;
}

/* Modes of arithmetic that a thread sets are its own, and stay. */
static void modes(void) {
#if defined __x86_64__
  int flushed[2] = {0, 0};
  for (int region = 0; region < 3 * SOME; region++) {
#pragma omp parallel num_threads(2)
    {
      int id = omp_get_thread_num();
      if (id == 1 && region == 2 * SOME) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
      flushed[id] += tiny() == 0;
    }
  }
  CHECK_EQUAL(flushed[0], 0);
  CHECK_EQUAL(flushed[1], SOME);
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 1) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x8040u);
#endif
}

static atomic_int signals;
static void count(int number) {
  (void)number;
  signals++;
}

/* Locks that know their owner, tasks, critical sections, memory, signals, deep stacks, and what walks stacks. */
static void everything(void) {
  static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  static omp_nest_lock_t lock;
  static pthread_t other;
  omp_init_nest_lock(&lock);
  struct sigaction action = {.sa_handler = count};
  CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
  long sum = 0, tasks = 0;
  for (int region = 0; region < OFTEN; region++) {
#pragma omp parallel num_threads(2)
    {
      int id = omp_get_thread_num();
      if (id == 1) other = pthread_self();
      CHECK_EQUAL(pthread_mutex_lock(&mutex), 0);
      CHECK_EQUAL(pthread_mutex_lock(&mutex), 0);
      omp_set_nest_lock(&lock);
      omp_set_nest_lock(&lock);
      char *memory = malloc(100 + region);
      memset(memory, id, 100);
      sum += memory[99];
      free(memory);
      omp_unset_nest_lock(&lock);
      omp_unset_nest_lock(&lock);
      CHECK_EQUAL(pthread_mutex_unlock(&mutex), 0);
      CHECK_EQUAL(pthread_mutex_unlock(&mutex), 0);
      if (region % 7 == 0) {
#pragma omp task
#pragma omp atomic
        tasks++;
      }
#pragma omp critical
      sum++;
      if (region % 100 == 0) {
        volatile char deep[4 << 20];
        for (size_t at = 0; at < sizeof deep; at += 4096) deep[at] = (char)id;
        void *calls[8];
        CHECK(backtrace(calls, 8) > 0);
      }
      if (region % 10 == 0 && id == 0 && region > 0) CHECK_EQUAL(pthread_kill(other, SIGUSR1), 0);
#pragma omp barrier
      if (region % 500 == 499 && id == 1) CHECK_EQUAL(system("true"), 0);
    }
  }
  CHECK_EQUAL(sum, 3L * OFTEN);
  CHECK_EQUAL(tasks, 2 * ((OFTEN + 6) / 7));
  /* Signals that wait for a thread are delivered as one. */
  for (int wait = 0; signals == 0 && wait < 20000; wait++) usleep(1000);
  CHECK(signals > 0);
  omp_destroy_nest_lock(&lock);
}

/* A thread that waits for a part that sleeps uses no processor. */
static void sleeping(void) {
  struct timespec before, after, pause = {0, 400000000};
  for (int region = 0; region <= 2 * SOME; region++) {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && region == 2 * SOME) nanosleep(&pause, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  }
  CHECK(after.tv_sec - before.tv_sec + 1e-9 * (after.tv_nsec - before.tv_nsec) < 0.2);
}

/* Children of the second thread. */
static void children(void) {
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && region % SOME == SOME - 1) {
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        own = 0;
        void *memory = malloc(1000);
        _exit(memory ? 7 : 1);
      }
      int status;
      CHECK_EQUAL(waitpid(child, &status, 0), child);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
  }
}

/* A part spins for a task of its own, which the waiting master runs. */
static void helped(void) {
  static atomic_int done;
  for (int region = 0; region < OFTEN / 10; region++) {
    done = 0;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
#pragma omp task
      done = 1;
      while (!done) sched_yield();
    }
  }
}

static void *nothing(void *of) { return of; }

static void *short_lived(void *starts) {
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && starts) {
      pthread_t thread;
      CHECK_EQUAL(pthread_create(&thread, NULL, nothing, NULL), 0);
      CHECK_EQUAL(pthread_join(thread, NULL), 0);
    }
  }
  return NULL;
}

/* Masters end, and leave their threads to others, which start something. */
static void masters(void) {
  for (int master = 0; master < 10; master++) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, short_lived, master % 2 ? &thread : NULL), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
  }
}

/* Regions in regions, of which the inner ones take turns as well. */
static void nested(void) {
  long sum = 0;
  omp_set_max_active_levels(2);
  for (int region = 0; region < OFTEN / 4; region++) {
#pragma omp parallel num_threads(2)
    {
      int outer = omp_get_thread_num();
#pragma omp parallel num_threads(2)
      {
        int id = 2 * outer + omp_get_thread_num();
#pragma omp barrier
#pragma omp atomic
        sum += id;
#pragma omp barrier
      }
#pragma omp barrier
    }
  }
  CHECK_EQUAL(sum, 6L * (OFTEN / 4));
  omp_set_max_active_levels(1);
}

/* A larger team, whose parts wait for each other in turn. */
static void four(void) {
  long sum = 0;
  for (int region = 0; region < OFTEN / 4; region++) {
#pragma omp parallel num_threads(4) reduction(+ : sum)
    {
#pragma omp for ordered schedule(static, 1)
      for (int i = 0; i < 16; i++) {
#pragma omp ordered
        sum += i;
      }
      if (region % 2) sum += omp_get_thread_num();
    }
  }
  CHECK_EQUAL(sum, 120L * (OFTEN / 4) + 6L * (OFTEN / 8));
}

/* The C library has each thread change the user, and waits for all but the calling one. */
static void users(void) {
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && region > SOME) CHECK_EQUAL(seteuid(geteuid()), 0);
  }
}

/* A signal that a thread blocks from one barrier to the next is not blocked in the other thread. */
static void masks(void) {
  sigset_t none, own, masters;
  sigemptyset(&none);
  sigaddset(&none, SIGUSR2);
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    {
      int id = omp_get_thread_num();
      if (id == 1 && region > 2 * SOME) CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &none, &own), 0);
#pragma omp barrier
      if (id == 0) {
        CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &masters), 0);
        CHECK(!sigismember(&masters, SIGUSR2));
      }
#pragma omp barrier
      if (id == 1 && region > 2 * SOME) CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &own, NULL), 0);
    }
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &masters), 0);
    CHECK(!sigismember(&masters, SIGUSR2));
  }
}

/* The name of a thread is its own. */
static void names(void) {
  char name[16], own[16];
  CHECK_EQUAL(pthread_getname_np(pthread_self(), own, sizeof own), 0);
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && region >= SOME) {
      if (region == SOME) CHECK_EQUAL(pthread_setname_np(pthread_self(), "worker"), 0);
      CHECK_EQUAL(pthread_getname_np(pthread_self(), name, sizeof name), 0);
      CHECK(!strcmp(name, "worker"));
    }
    CHECK_EQUAL(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    CHECK(!strcmp(name, own));
  }
}

/* So is its priority. */
static void priorities(void) {
  int priority = getpriority(PRIO_PROCESS, 0);
  for (int region = 0; region < 4 * SOME; region++) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && region >= SOME) {
      if (region == SOME) CHECK_EQUAL(nice(1), priority + 1);
      CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), priority + 1);
    }
    CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), priority);
  }
}

/* In a child. */
static void apart(void (*does)(void)) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    does();
    _exit(0);
  }
  int status;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program may end in the second thread. */
static void ending(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (int region = 0; region < 2 * SOME; region++) {
#pragma omp parallel num_threads(2)
      if (omp_get_thread_num() == 1 && region == 2 * SOME - 1) exit(9);
    }
    _exit(1);
  }
  int status;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

int main(void) {
  keep_to_one_processor();
  ending();
  identity();
  spin(200, 1);
  spin(8, 0);
  for (int region = 0; region < OFTEN; region++) meet(region % 200 == 199);
  for (int region = 0; region < OFTEN; region++) {
    int count = region % 5;
    CHECK_EQUAL(barriers(region, count), 2L * count * region + (long)count * (count - 1));
  }
  modes();
  helped();
  masters();
  sleeping();
  children();
  nested();
  four();
  /* Each in a process of its own, whose threads they change. */
  apart(users);
  apart(masks);
  apart(names);
  apart(priorities);
  everything();
  puts("ok");
  return 0;
}
