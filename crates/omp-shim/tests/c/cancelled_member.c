/* A thread of a team leaves for good in the middle of its part, by pthread_cancel or pthread_exit, in the way that the argument
   names: one that is not the master, unless the argument says so. OpenMP has no words for that. With gcc's library the thread ends
   as any other: its handlers run, and the destructors of what it kept; the region that it left waits for it for ever, and all
   other threads go on. (Where a master leaves, gcc's library waits in the end of its thread.) */
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

static const char *way;
/* Posted by the thread that leaves: its handler of cancellation ran; what it kept was destroyed. */
static sem_t unwound, ended;
static pthread_key_t kept;
static int nothing[2];
static pthread_t leaver;
static sem_t is_there;
/* After a master has left: its members may look at their team, and have done so. */
static sem_t may_look, have_looked;

static void handler(void *unused) {
  (void)unused;
  sem_post(&unwound);
}

static void destructor(void *unused) {
  (void)unused;
  sem_post(&ended);
}

static int is(const char *name) {
  return strcmp(way, name) == 0;
}

static void leave(void) {
  char byte;
  pthread_setspecific(kept, &kept);
  pthread_cleanup_push(handler, NULL);
  leaver = pthread_self();
  sem_post(&is_there);
  if (strstr(way, "exits")) pthread_exit(NULL);
  /* Nothing is ever written there. */
  while (read(nothing[0], &byte, 1) != 2) continue;
  pthread_cleanup_pop(0);
}

static void task_or_not(int me) {
  if (strstr(way, "master")) {
    if (me == 0) leave();
    sem_wait(&may_look);
    CHECK_EQUAL(omp_get_num_threads(), 3);
    CHECK_EQUAL(omp_get_thread_num(), me);
    sem_post(&have_looked);
  } else if (is("exits in a task")) {
#pragma omp task if (0)
    if (me == 1) leave();
  } else if (me == 1) {
    leave();
  }
}

static void *master(void *unused) {
  (void)unused;
  omp_set_max_active_levels(2);
  if (is("cancelled later")) {
    /* The cancellation finds the thread idle, and acts where the thread can be cancelled. */
#pragma omp parallel num_threads(3)
    if (omp_get_thread_num() == 1) CHECK_EQUAL(pthread_cancel(pthread_self()), 0);
  }
  if (is("exits in an inner region")) {
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(2)
    if (omp_get_ancestor_thread_num(1) == 1 && omp_get_thread_num() == 1) leave();
  } else {
#pragma omp parallel num_threads(3)
    {
      int me = omp_get_thread_num();
      if (is("exits after a loop")) {
#pragma omp for
        for (int i = 0; i < 30; i++) continue;
      }
      task_or_not(me);
    }
  }
  return NULL;
}

static void *region(void *unused) {
  (void)unused;
  int members = 0, sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : members, sum)
  {
    members += 1;
#pragma omp for
    for (int i = 0; i < 100; i++) sum += i;
  }
  CHECK_EQUAL(members, 3);
  CHECK_EQUAL(sum, 4950);
  return NULL;
}

/* By a master that has no threads yet. */
static void region_elsewhere(void) {
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, region, NULL), 0);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(int count, char **arguments) {
  CHECK_EQUAL(count, 2);
  way = arguments[1];
  sem_init(&unwound, 0, 0);
  sem_init(&ended, 0, 0);
  sem_init(&is_there, 0, 0);
  sem_init(&may_look, 0, 0);
  sem_init(&have_looked, 0, 0);
  CHECK_EQUAL(pipe(nothing), 0);
  CHECK_EQUAL(pthread_key_create(&kept, destructor), 0);
  region(NULL);
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, master, NULL), 0);
  sem_wait(&is_there);
  if (is("cancelled") || is("master is cancelled")) CHECK_EQUAL(pthread_cancel(leaver), 0);
  sem_wait(&unwound);
  sem_wait(&ended);
  if (strstr(way, "master")) {
    region_elsewhere();
    for (int i = 0; i < 2; i++) sem_post(&may_look);
    for (int i = 0; i < 2; i++) sem_wait(&have_looked);
  }
  for (int i = 0; i < 100; i++) region(NULL);
  region_elsewhere();
  puts("ok");
  return 0;
}
