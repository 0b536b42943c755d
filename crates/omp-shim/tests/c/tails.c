/* Regions that end with a barrier, a loop's or a section's, which the compiler makes the tail of the body: a thread that comes there does
   nothing more. The others see them arrive all the same, wherever they wait. */
#define _GNU_SOURCE
#include "one_processor.h"
#include <omp.h>
#include <stdlib.h>

#define REGIONS 300
#define MOST 6

static int written[MOST], seen[MOST];

/* All members at the tail. */
static void all(int size, int region) {
#pragma omp parallel num_threads(size)
  {
    written[omp_get_thread_num()] = region;
#pragma omp barrier
  }
}

/* Those whose number is in `mask` wait elsewhere, and look at what the others have written. */
static void some(int size, int region, unsigned mask) {
#pragma omp parallel num_threads(size)
  {
    int id = omp_get_thread_num();
    written[id] = region;
    if (mask & 1u << id) {
#pragma omp barrier
      int sum = 0;
      for (int other = 0; other < size; other++) sum += written[other] == region;
      seen[id] = sum;
    } else {
#pragma omp barrier
    }
  }
}

/* The tail is the second barrier; each sees what the next one wrote before the first. */
static void second(int size, int region) {
#pragma omp parallel num_threads(size)
  {
    int id = omp_get_thread_num();
    written[id] = region;
#pragma omp barrier
    seen[id] = written[(id + 1) % size];
#pragma omp barrier
  }
}

/* As Cython has it: a loop with a variable that comes in and goes out. */
static int last_of(int size, int count) {
  int last = -1;
#pragma omp parallel num_threads(size)
#pragma omp for firstprivate(last) lastprivate(last)
  for (int k = 0; k < count; k++) last = k;
  return last;
}

static int last_dealt(int size, int count) {
  int last = -1;
#pragma omp parallel num_threads(size)
#pragma omp for firstprivate(last) lastprivate(last) schedule(dynamic, 3)
  for (int k = 0; k < count; k++) last = k;
  return last;
}

static int last_section(int size) {
  int last = -1;
#pragma omp parallel num_threads(size)
#pragma omp sections lastprivate(last)
  {
#pragma omp section
    last = 1;
#pragma omp section
    last = 2;
  }
  return last;
}

/* Tasks that one member makes late, in bodies that had none for long. */
static int late_tasks(int size, int maker, int tasks) {
  int done = 0;
#pragma omp parallel num_threads(size)
  {
    if (omp_get_thread_num() == maker)
      for (int k = 0; k < tasks; k++) {
#pragma omp task shared(done)
        {
#pragma omp atomic
          done++;
        }
      }
#pragma omp barrier
  }
  return done;
}

/* A loop is cancelled, and the region goes on to its last barrier. */
static void cancelled(int size, int cancels) {
#pragma omp parallel num_threads(size)
  {
#pragma omp for
    for (int k = 0; k < 64; k++) {
#pragma omp cancel for if (cancels)
    }
#pragma omp barrier
  }
}

int main(void) {
  if (getenv("TAILS_TAKE_TURNS")) keep_to_one_processor();
  for (int size = 1; size <= MOST; size++) {
    for (int region = 1; region <= REGIONS; region++) {
      all(size, region);
      for (int id = 0; id < size; id++) CHECK_EQUAL(written[id], region);
      second(size, REGIONS + region);
      for (int id = 0; id < size; id++) CHECK_EQUAL(seen[id], REGIONS + region);
      unsigned mask = (unsigned)(region * 2654435761u >> 7) % (1u << size);
      some(size, -region, mask);
      for (int id = 0; id < size; id++)
        if (mask & 1u << id) CHECK_EQUAL(seen[id], size);
      CHECK_EQUAL(last_of(size, region), region - 1);
      CHECK_EQUAL(last_dealt(size, region), region - 1);
      CHECK_EQUAL(last_section(size), 2);
      cancelled(size, region % 3 == 0);
    }
    for (int region = 0; region < 20; region++) CHECK_EQUAL(late_tasks(size, 0, 0), 0);
  }
  for (int size = 1; size <= MOST; size++) {
    for (int region = 0; region < 20; region++) CHECK_EQUAL(late_tasks(size, 0, 0), 0);
    for (int maker = 0; maker < size; maker++) CHECK_EQUAL(late_tasks(size, maker, 25), 25);
  }
  puts("ok");
  return 0;
}
