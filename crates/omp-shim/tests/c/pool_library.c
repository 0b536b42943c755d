// A library with threads of its own, by OpenBLAS's interface: each call reads the number of threads
// once, and its jobs wait for each other.
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

#define MOST 64

typedef void (*job_type)(int, void *, int);
typedef void (*callback_type)(int, job_type, int, size_t, void *, int);

static int threads = 2;
static callback_type callback;

int openblas_get_num_threads(void) { return __atomic_load_n(&threads, __ATOMIC_RELAXED); }
void openblas_set_num_threads(int number) {
  __atomic_store_n(&threads, number, __ATOMIC_RELAXED);
}
int openblas_get_parallel(void) { return 1; }
void openblas_set_threads_callback_function(callback_type function) { callback = function; }
int pool_has_callback(void) { return callback != NULL; }

struct job {
  int *arrived;
  int count;
  long from, to, sum;
  void (*seen)(void);
};

// As in level 3: no job ends before all have begun.
static void run(int number, void *data, int word) {
  struct job *job = data;
  if (number < 0 || word != 7) abort();
  __atomic_fetch_add(job->arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(job->arrived, __ATOMIC_ACQUIRE) < job->count) sched_yield();
  if (job->seen) job->seen();
  for (long i = job->from; i < job->to; i++) job->sum += i;
}

static void *run_alone(void *job) {
  run(1, job, 7);
  return NULL;
}

// The sum of the numbers below `end`; how many jobs the call had goes to `jobs`. Each job calls `seen`.
long pool_sum(long end, int *jobs, void (*seen)(void)) {
  int count = openblas_get_num_threads(), arrived = 0;
  struct job all[MOST];
  if (count < 1 || count > MOST) abort();
  for (int i = 0; i < count; i++)
    all[i] = (struct job){&arrived, count, end * i / count, end * (i + 1) / count, 0, seen};
  if (count > 1 && callback) {
    callback(1, run, count, sizeof *all, all, 7);
  } else {
    pthread_t own[MOST];
    for (int i = 1; i < count; i++)
      if (pthread_create(&own[i], NULL, run_alone, &all[i])) abort();
    run(0, &all[0], 7);
    for (int i = 1; i < count; i++) pthread_join(own[i], NULL);
  }
  long sum = 0;
  for (int i = 0; i < count; i++) sum += all[i].sum;
  *jobs = count;
  return sum;
}

static void *idle(void *nothing) { return nothing; }

// Threads are made when the library is loaded.
__attribute__((constructor)) static void load(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, idle, NULL) == 0) pthread_detach(thread);
}
