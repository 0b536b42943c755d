/* The calls of page migration, on a machine of two pretended nodes (UPM_NODES=2) whose pages are all
   on the first one: processor i is on node i % 2, and the two threads are bound. */
#include "check.h"
#include "upm.h"
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096
#define PAGES 512
#define HALF (PAGES / 2 * PAGE)

static char field[PAGES * PAGE] __attribute__((aligned(PAGE)));
static const char constant[4 * PAGE] __attribute__((aligned(PAGE))) = {1};

static void bad_areas(void) {
  CHECK_EQUAL(upmlib_memrefcnt(field, PAGE), -1); /* before upmlib_init */
  CHECK_EQUAL(upmlib_migrate_memory(), 0);
  upmlib_record();
  CHECK_EQUAL(upmlib_compare_counters() + upmlib_replay() + upmlib_undo(), 0);
  upmlib_touched(field, sizeof field);
  CHECK_EQUAL(upmlib_init(), 0);
  CHECK_EQUAL(num_migrations, 1);
  CHECK_EQUAL(upmlib_memrefcnt(field, 0), -1);
  CHECK_EQUAL(upmlib_memrefcnt(0, PAGE), -1);
  CHECK_EQUAL(upmlib_memrefcnt((void *)(UINTPTR_MAX - 5), 100), -1);
  CHECK_EQUAL(upmlib_memrefcnt(field, SIZE_MAX / 2), -1);
  CHECK_EQUAL(upmlib_memrefcnt(constant, sizeof constant), -1);
  CHECK_EQUAL(upmlib_memrefcnt((void *)bad_areas, 10), -1);
  char *hole = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(hole != MAP_FAILED);
  munmap(hole + PAGE, PAGE);
  CHECK_EQUAL(upmlib_memrefcnt(hole, 3 * PAGE), -1);
  CHECK_EQUAL(upmlib_memrefcnt(field, PAGE + 1), 0);
  CHECK_EQUAL(upmlib_memrefcnt(field + PAGE, PAGE), -1);
  CHECK_EQUAL(upmlib_memrefcnt(field + PAGE + 1, 1), 0); /* a byte of a page that is taken */
}

/* Thread i uses its half of the field. */
static void sweep(int described) {
#pragma omp parallel num_threads(2)
  {
    char *own = field + omp_get_thread_num() * HALF;
    for (int round = 0; round < 4; round++)
      for (int i = 0; i < HALF; i += 16) own[i]++;
    if (described == 1) upmlib_touched(own, HALF);
    if (described == 2) upmlib_loop(field, 64, 64, omp_get_thread_num() * (HALF / 64), (omp_get_thread_num() + 1) * (HALF / 64));
  }
}

static void exactly(int how) {
  CHECK_EQUAL(upmlib_init(), 0);
  CHECK_EQUAL(upmlib_memrefcnt(field, sizeof field), 0);
  int first = 0, calls = 0;
  sweep(how); /* The first description of all begins: it counts itself, or the next iteration does. */
  for (int step = 0; step < 10 && num_migrations > 0; step++, calls++) {
    sweep(how);
    int moved = upmlib_migrate_memory();
    if (step == 0) first = moved;
    CHECK(num_migrations >= moved);
  }
  CHECK_EQUAL(first, PAGES / 2);
  CHECK_EQUAL(calls, 2);
  CHECK_EQUAL(num_migrations, 0);
}

/* Returns how many pages moved until none did any more. */
static int sample(const int *pipes) {
  CHECK_EQUAL(upmlib_init(), 0);
  CHECK_EQUAL(upmlib_memrefcnt(field, sizeof field), 0);
  int all = 0;
  char back[64];
  for (int step = 0; step < 4000 && num_migrations > 0; step++) {
    sweep(0);
    /* Outside regions the field may be given to the system. */
    CHECK_EQUAL(write(pipes[1], field + step % PAGES * PAGE, sizeof back), sizeof back);
    CHECK_EQUAL(read(pipes[0], field + step % PAGES * PAGE, sizeof back), sizeof back);
    all += upmlib_migrate_memory();
  }
  CHECK_EQUAL(num_migrations, 0);
  printf("sampled: %d of %d pages moved\n", all, PAGES / 2);
  return all;
}

static void sampled(void) {
  int pipes[2], is_right = 0;
  CHECK(pipe(pipes) == 0);
  /* A thread that has no processor for a while is seen too seldom. */
  for (int trial = 0; trial < 3 && !is_right; trial++) {
    int all = sample(pipes);
    is_right = all > PAGES / 2 * 9 / 10 && all < PAGES;
  }
  fflush(stdout);
  CHECK(is_right);
  /* And now everywhere. */
#pragma omp parallel num_threads(2)
  {
    CHECK_EQUAL(write(pipes[1], field + PAGE, 8), 8);
    CHECK_EQUAL(read(pipes[0], field + PAGE, 8), 8);
  }
}

/* Thread i uses its half in the first phase and the other half in the second. */
static void phase(int which) {
#pragma omp parallel num_threads(2)
  upmlib_touched(field + (omp_get_thread_num() ^ which) * HALF, HALF);
}

static void phases(void) {
  CHECK_EQUAL(upmlib_init(), 0);
  CHECK_EQUAL(upmlib_memrefcnt(field, sizeof field), 0);
  phase(0); /* Describes for the first time. */
  upmlib_record();
  phase(0);
  upmlib_record();
  phase(1);
  upmlib_record();
  /* Of each phase the pages of the half that thread 1 uses: at most UPM_CRITICAL_PAGES, 20. */
  CHECK_EQUAL(upmlib_compare_counters(), 40);
  int moved = 0;
  for (int step = 0; step < 6; step++) {
    moved += upmlib_replay();
    phase(0);
    moved += upmlib_replay();
    phase(1);
    upmlib_undo();
  }
  CHECK(moved >= 40); /* At least in one measured iteration. */
}

static void forked(void) {
  CHECK_EQUAL(upmlib_init(), 0);
  CHECK_EQUAL(upmlib_memrefcnt(field, sizeof field), 0);
  for (int child = 0; child < 4; child++) {
#pragma omp parallel num_threads(2)
    {
      for (int round = 0; round < 40; round++)
        for (int i = 0; i < HALF; i += 64) field[omp_get_thread_num() * HALF + i]++;
      if (omp_get_thread_num() == 1) {
        pid_t pid = fork();
        if (pid == 0) {
          alarm(20);
          for (int i = 0; i < (int)sizeof field; i += 512) field[i]++;
          _exit(upmlib_init() == 0 && upmlib_memrefcnt(field, sizeof field) == 0 ? 0 : 1);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
      }
    }
  }
  upmlib_init();
}

int main(void) {
  bad_areas();
  exactly(1);
  exactly(2);
  sampled();
  phases();
  forked();
  puts("ok");
  return 0;
}
