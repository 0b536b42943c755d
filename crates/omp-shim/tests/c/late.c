/* A program without OpenMP that loads a library with it, from several threads; the library's name is the argument. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

static int (*sum_to)(int);

static void *call(void *unused) {
  (void)unused;
  for (int round = 0; round < 10; round++) CHECK_EQUAL(sum_to(100), 5050);
  return NULL;
}

int main(int count, char **arguments) {
  CHECK_EQUAL(count, 2);
  for (int round = 0; round < 3; round++) {
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    sum_to = (int (*)(int))dlsym(library, "sum_to");
    CHECK(sum_to);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, call, NULL), 0);
    call(NULL);
    for (int i = 0; i < 4; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(dlclose(library), 0);
  }
  puts("ok");
  return 0;
}
