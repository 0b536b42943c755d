/* A program whose outer loop allocates and frees what it computes on (UPM=on), and starts threads
   whose stacks may come to where that was. */
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES (8 << 20)

static void *work(void *data) {
  char stack[100000];
  memset(stack, 1, sizeof stack);
  *(int *)data = stack[99];
  return 0;
}

static char *fresh(void) {
  char *field = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(field != MAP_FAILED);
  return field;
}

int main(void) {
  char *field = fresh();
  for (int step = 0; step < 200; step++) {
#pragma omp parallel num_threads(2)
    for (volatile int i = 0; i < 100000; i++) {}
    char *next = fresh();
    munmap(field, BYTES);
    field = next;
    pthread_t thread;
    int result = 0;
    CHECK(pthread_create(&thread, 0, work, &result) == 0);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < BYTES; i += 64) field[i] = (char)step;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < BYTES; i += 64) CHECK(field[i] == (char)step);
    pthread_join(thread, 0);
    CHECK_EQUAL(result, 1);
  }
  puts("ok");
  return 0;
}
