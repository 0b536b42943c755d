// A library with threads of its own, by OpenBLAS's interface: each call reads the number of threads
// once, and its jobs wait for each other. With OWN_THREADS it is one as OpenBLAS before 0.3.26: it
// has no callback but a thread that stays, ends that before a fork, and makes it anew when a number
// is set or a call needs it. With BLIS or MKL beside that it has the names of that library's
// functions instead of OpenBLAS's. With SINGLE it begins with one thread.
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define MOST 64

typedef void (*job_type)(int, void *, int);
typedef void (*callback_type)(int, job_type, int, size_t, void *, int);

#ifdef SINGLE
static int threads = 1, most = 1;
#else
static int threads = 2, most = 2;
#endif
static callback_type callback;

#ifdef OWN_THREADS
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static pthread_t server;
static int is_there, has_to_end;
static void *work;
static void *run_alone(void *);

static void *serve(void *nothing) {
  pthread_mutex_lock(&lock);
  while (!has_to_end) {
    if (work) {
      void *mine = work;
      pthread_mutex_unlock(&lock);
      run_alone(mine);
      pthread_mutex_lock(&lock);
      work = NULL;
      pthread_cond_broadcast(&news);
    } else {
      pthread_cond_wait(&news, &lock);
    }
  }
  pthread_mutex_unlock(&lock);
  return nothing;
}

static void have_thread(void) {
  pthread_mutex_lock(&lock);
  if (!is_there) {
    has_to_end = 0;
    if (pthread_create(&server, NULL, serve, NULL)) abort();
    is_there = 1;
  }
  pthread_mutex_unlock(&lock);
}

static void end_thread(void) {
  pthread_mutex_lock(&lock);
  int was_there = is_there;
  has_to_end = 1;
  is_there = 0;
  pthread_cond_broadcast(&news);
  pthread_mutex_unlock(&lock);
  if (was_there) pthread_join(server, NULL);
}
#else
static void *idle(void *nothing) { return nothing; }

static void have_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, idle, NULL) == 0) pthread_detach(thread);
}
#endif

// The number by the names of this test, whatever library this is.
int pool_get(void) { return __atomic_load_n(&threads, __ATOMIC_RELAXED); }
void pool_set(int number) {
#ifdef OWN_THREADS
  have_thread();
#endif
  // It gets threads and buffers for so many, and has its number after that.
  if (number > most) {
    have_thread();
    __atomic_store_n(&most, number, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&threads, number, __ATOMIC_RELAXED);
}
#if defined BLIS
long bli_thread_get_num_threads(void) { return pool_get(); }
void bli_thread_set_num_threads(long number) { pool_set((int)number); }
#elif defined MKL
int MKL_Get_Max_Threads(void) { return pool_get(); }
void MKL_Set_Num_Threads(int number) { pool_set(number); }
#else
int openblas_get_num_threads(void) { return pool_get(); }
void openblas_set_num_threads(int number) { pool_set(number); }
static int looks;
int openblas_get_parallel(void) {
  __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
  return 1;
}
// How often it was looked what this library is.
int pool_looks(void) { return __atomic_load_n(&looks, __ATOMIC_RELAXED); }
#endif
#ifndef OWN_THREADS
void openblas_set_threads_callback_function(callback_type function) { callback = function; }
#endif
int pool_has_callback(void) { return callback != NULL; }

struct job {
  int *arrived;
  int count;
  long from, to, sum;
  void (*seen)(void);
};

// Jobs that run by the callback have a buffer by their number.
static int in_use[MOST];

// As in level 3: no job ends before all have begun.
static void run(int number, void *data, int word) {
  struct job *job = data;
  if (number < 0 || number >= __atomic_load_n(&most, __ATOMIC_RELAXED) || word < 7) abort();
  if (word == 7 && __atomic_exchange_n(&in_use[number], 1, __ATOMIC_ACQ_REL)) abort();
  __atomic_fetch_add(job->arrived, 1, __ATOMIC_ACQ_REL);
  time_t end = time(NULL) + 30;
  while (__atomic_load_n(job->arrived, __ATOMIC_ACQUIRE) < job->count) {
    sched_yield();
    // A thread that is not there does nothing.
    if (time(NULL) > end) abort();
  }
  if (job->seen) job->seen();
  for (long i = job->from; i < job->to; i++) job->sum += i;
  if (word == 7) __atomic_store_n(&in_use[number], 0, __ATOMIC_RELEASE);
}

static void *run_alone(void *job) {
  run(1, job, 8);
  return NULL;
}

// Runs jobs without a callback.
static void run_all(struct job *all, int count) {
#ifdef OWN_THREADS
  // One call at a time; two threads.
  static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&calls);
  have_thread();
  pthread_mutex_lock(&lock);
  work = count > 1 ? &all[1] : NULL;
  pthread_cond_broadcast(&news);
  pthread_mutex_unlock(&lock);
  run(0, &all[0], 8);
  pthread_mutex_lock(&lock);
  while (work) pthread_cond_wait(&news, &lock);
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&calls);
#else
  pthread_t own[MOST];
  for (int i = 1; i < count; i++)
    if (pthread_create(&own[i], NULL, run_alone, &all[i])) abort();
  run(0, &all[0], 8);
  for (int i = 1; i < count; i++) pthread_join(own[i], NULL);
#endif
}

// The sum of the numbers below `end`; how many jobs the call had goes to `jobs`. Each job calls `seen`.
long pool_sum(long end, int *jobs, void (*seen)(void)) {
  int count = pool_get(), arrived = 0;
#ifdef OWN_THREADS
  if (count > 2) count = 2;
#endif
  struct job all[MOST];
  if (count < 1 || count > MOST) abort();
  for (int i = 0; i < count; i++)
    all[i] = (struct job){&arrived, count, end * i / count, end * (i + 1) / count, 0, seen};
  if (count > 1 && callback)
    callback(1, run, count, sizeof *all, all, 7);
  else
    run_all(all, count);
  long sum = 0;
  for (int i = 0; i < count; i++) sum += all[i].sum;
  *jobs = count;
  return sum;
}

// Threads are made when the library is loaded.
#ifdef OWN_THREADS
__attribute__((constructor)) static void load(void) {
  have_thread();
  pthread_atfork(end_thread, NULL, NULL);
}
#else
// Before a fork it gives its buffers back, of which none may be in use.
static void end_buffers(void) {
  for (int i = 0; i < MOST; i++)
    if (__atomic_load_n(&in_use[i], __ATOMIC_ACQUIRE)) abort();
}

__attribute__((constructor)) static void load(void) {
  if (threads > 1) have_thread();
  pthread_atfork(end_buffers, NULL, NULL);
}
#endif
