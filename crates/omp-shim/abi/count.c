/* libnanos_count.so: to a program that asks once how many processors there are, the answer is how
   many a newcomer gets (`cpumgr run --tell-share`). It stands in front of the C library's calls.

   NANOS_COUNT is "number:process". It holds for that process, whatever that becomes by exec, and for
   no other: children begin without it. An OpenMP program, which follows while it runs, and libraries
   that follow in any program hear the truth. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define VARIABLE "NANOS_COUNT"

/* 0: the truth. */
static int count;

static const char *const following[] = {"libgomp", "libomp", "libiomp", "openblas", "libblis",
                                        "libmkl",  "libtbb", 0};

static int has_one_of(const char *path, const char *const *names, int most) {
  const char *end = path ? strrchr(path, '/') : 0;
  const char *file = end ? end + 1 : path ? path : "";
  for (int i = 0; names[i] && i < most; i++)
    if (strstr(file, names[i])) return 1;
  return 0;
}

/* Whether the program's file itself names an OpenMP library. */
static int is_openmp_program(void) {
  const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
  unsigned long number = getauxval(AT_PHNUM);
  const ElfW(Dyn) *dynamic = 0;
  ElfW(Addr) base = 0;
  for (unsigned long i = 0; headers && i < number; i++)
    if (headers[i].p_type == PT_PHDR) base = (ElfW(Addr))headers - headers[i].p_vaddr;
  for (unsigned long i = 0; headers && i < number; i++)
    if (headers[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
  const char *names = 0;
  for (const ElfW(Dyn) *it = dynamic; it && it->d_tag != DT_NULL; it++)
    /* glibc has added the base already. */
    if (it->d_tag == DT_STRTAB) names = (const char *)it->d_un.d_ptr;
  for (const ElfW(Dyn) *it = dynamic; it && names && it->d_tag != DT_NULL; it++)
    if (it->d_tag == DT_NEEDED && has_one_of(names + it->d_un.d_val, following, 3)) return 1;
  return 0;
}

/* Takes this library out of what children preload. */
static void leave_environment(void) {
  Dl_info own;
  const char *list = getenv("LD_PRELOAD");
  unsetenv(VARIABLE);
  if (!list || !dladdr((void *)leave_environment, &own) || !own.dli_fname) return;
  char *rest = malloc(strlen(list) + 1), *copy = strdup(list), *state = 0;
  if (rest && copy) {
    *rest = 0;
    for (char *part = strtok_r(copy, ": ", &state); part; part = strtok_r(0, ": ", &state))
      if (strcmp(part, own.dli_fname) != 0) {
        if (*rest) strcat(rest, ":");
        strcat(rest, part);
      }
    if (*rest)
      setenv("LD_PRELOAD", rest, 1);
    else
      unsetenv("LD_PRELOAD");
  }
  free(rest);
  free(copy);
}

__attribute__((constructor)) static void begin(void) {
  const char *said = getenv(VARIABLE);
  int number = 0, process = 0;
  int is_ours = said && sscanf(said, "%d:%d", &number, &process) == 2 && process == (int)getpid();
  if (!is_ours || is_openmp_program()) {
    leave_environment();
    return;
  }
  count = number;
}

/* A child of a fork goes on as the program that it is; what it execs begins without this. */
static int is_told(void *caller) {
  Dl_info from;
  if (count < 1) return 0;
  return !dladdr(caller, &from) || !has_one_of(from.dli_fname, following, 99);
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

/* Leaves `count` of the processors, others in each process. */
static void reduce(size_t size, cpu_set_t *set) {
  int all = CPU_COUNT_S(size, set);
  if (all <= count) return;
  int first = (int)((long)getpid() * count % all), place = 0;
  for (size_t cpu = 0; cpu < 8 * size; cpu++)
    if (CPU_ISSET_S(cpu, size, set)) {
      int after = (place++ - first + all) % all;
      if (after >= count) CPU_CLR_S(cpu, size, set);
    }
}

/* What was heard last of a mask, and what that stood for. A program that binds its threads and puts
   back what it heard means the latter. A thread that finds the lock taken, or one that a thread of
   its parent took before a fork, goes without. */
static pthread_mutex_t heard_lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_set_t heard, meant;
static int has_heard;

static void hear(size_t size, cpu_set_t *set) {
  cpu_set_t all;
  int fits = size <= sizeof all;
  CPU_ZERO(&all);
  if (fits) memcpy(&all, set, size);
  reduce(size, set);
  /* A thread that is bound to no more than that says nothing of what the others heard. */
  if (!fits || CPU_COUNT(&all) <= count || pthread_mutex_trylock(&heard_lock)) return;
  CPU_ZERO(&heard);
  memcpy(&heard, set, size);
  meant = all;
  has_heard = 1;
  pthread_mutex_unlock(&heard_lock);
}

/* Whether `set` was heard last; what it stands for goes to `whole`. */
static int is_heard(size_t size, const cpu_set_t *set, cpu_set_t *whole) {
  cpu_set_t wanted;
  if (count < 1 || !set || size > sizeof wanted || pthread_mutex_trylock(&heard_lock)) return 0;
  CPU_ZERO(&wanted);
  memcpy(&wanted, set, size);
  int is_so = has_heard && CPU_EQUAL(&wanted, &heard);
  if (is_so) *whole = meant;
  pthread_mutex_unlock(&heard_lock);
  return is_so;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
  int (*real)(pid_t, size_t, cpu_set_t *) = next("sched_getaffinity");
  int result = real(pid, size, set);
  int is_own = pid == 0 || pid == getpid() || pid == gettid();
  if (result >= 0 && is_own && is_told(__builtin_return_address(0))) hear(size, set);
  return result;
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set) {
  int (*real)(pthread_t, size_t, cpu_set_t *) = next("pthread_getaffinity_np");
  int result = real(thread, size, set);
  if (result == 0 && is_told(__builtin_return_address(0))) hear(size, set);
  return result;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
  int (*real)(pid_t, size_t, const cpu_set_t *) = next("sched_setaffinity");
  cpu_set_t whole;
  int is_own = pid == 0 || pid == getpid() || pid == gettid();
  if (is_own && is_told(__builtin_return_address(0)) && is_heard(size, set, &whole))
    return real(pid, sizeof whole, &whole);
  return real(pid, size, set);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) {
  int (*real)(pthread_t, size_t, const cpu_set_t *) = next("pthread_setaffinity_np");
  cpu_set_t whole;
  if (is_told(__builtin_return_address(0)) && is_heard(size, set, &whole))
    return real(thread, sizeof whole, &whole);
  return real(thread, size, set);
}

static long least(long number) { return number < count ? number : count; }

long sysconf(int name) {
  long (*real)(int) = next("sysconf");
  long number = real(name);
  int is_count = name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF;
  return is_count && is_told(__builtin_return_address(0)) ? least(number) : number;
}

int get_nprocs(void) {
  int (*real)(void) = next("get_nprocs");
  int number = real();
  return is_told(__builtin_return_address(0)) ? (int)least(number) : number;
}

int get_nprocs_conf(void) {
  int (*real)(void) = next("get_nprocs_conf");
  int number = real();
  return is_told(__builtin_return_address(0)) ? (int)least(number) : number;
}
