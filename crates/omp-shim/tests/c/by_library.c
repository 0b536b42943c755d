/* The program has no OpenMP of its own, only its library has (plugin.c): then the loader puts the C library in front of the
   OpenMP one. What both show under the same names is the C library's; what the OpenMP one itself shows goes on to that. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

int sum_to(int n);

static void *started(void *argument) { return argument; }

int main(void) {
  CHECK_EQUAL(sum_to(100), 5050);
  /* A thread and a program that are started by the names that the library shows. */
  void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  CHECK(library);
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&create = dlsym(library, "pthread_create");
  pthread_t thread;
  void *result = NULL;
  CHECK(create && create(&thread, NULL, started, &thread) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == &thread);
  int (*run)(const char *);
  *(void **)&run = dlsym(library, "system");
  CHECK(run);
  int status = run("exit 7");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  puts("ok");
  return 0;
}
