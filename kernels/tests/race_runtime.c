// An OpenMP runtime for ThreadSanitizer: what gcc calls for the constructs that the kernels use,
// on plain POSIX threads, which ThreadSanitizer understands. (The system's libgomp is not
// instrumented: every fork and join would look like a race.) `make race` links the kernels with it.
//
// Every region starts its threads and joins them, so that the only order between two threads is
// the one that OpenMP promises.

#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct team {
    int size;
    pthread_barrier_t barrier;
    pthread_mutex_t lock; // of the loop
    long next, end, chunk;
};

struct member {
    struct team *team;
    int number;
    void (*work)(void *);
    void *data;
};

static _Thread_local struct member *self;
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t atomic = PTHREAD_MUTEX_INITIALIZER;

int omp_get_thread_num(void)
{
    return self == NULL ? 0 : self->number;
}

int omp_get_num_threads(void)
{
    return self == NULL ? 1 : self->team->size;
}

int omp_get_max_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int threads = text == NULL ? 0 : atoi(text);
    return threads > 0 ? threads : 2;
}

void omp_set_max_active_levels(int levels)
{
    (void)levels; // every level is active here
}

static void *run(void *argument)
{
    struct member *outer = self;
    self = argument;
    self->work(self->data);
    self = outer;
    return NULL;
}

static void fork_join(void (*work)(void *), void *data, unsigned threads, struct team *team)
{
    team->size = threads == 0 ? omp_get_max_threads() : (int)threads;
    pthread_barrier_init(&team->barrier, NULL, (unsigned)team->size);
    pthread_mutex_init(&team->lock, NULL);
    struct member member[team->size];
    pthread_t thread[team->size];
    for (int i = 0; i < team->size; i++)
        member[i] = (struct member){ team, i, work, data };
    for (int i = 1; i < team->size; i++)
        if (pthread_create(&thread[i], NULL, run, &member[i]) != 0) {
            fprintf(stderr, "race_runtime: no thread %d\n", i);
            exit(1);
        }
    run(&member[0]);
    for (int i = 1; i < team->size; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&team->barrier);
    pthread_mutex_destroy(&team->lock);
}

void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags)
{
    (void)flags;
    struct team team = { 0 };
    fork_join(work, data, threads, &team);
}

void GOMP_parallel_loop_nonmonotonic_dynamic(void (*work)(void *), void *data, unsigned threads,
                                             long start, long end, long step, long chunk,
                                             unsigned flags)
{
    (void)flags;
    if (step != 1)
        abort();
    struct team team = { .next = start, .end = end, .chunk = chunk };
    fork_join(work, data, threads, &team);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    *from = team->next;
    *to = *from + team->chunk < team->end ? *from + team->chunk : team->end;
    team->next = *to;
    pthread_mutex_unlock(&team->lock);
    return *from < *to;
}

void GOMP_loop_end_nowait(void)
{
}

void GOMP_barrier(void)
{
    pthread_barrier_wait(&self->team->barrier);
}

void GOMP_critical_start(void)
{
    pthread_mutex_lock(&critical);
}

void GOMP_critical_end(void)
{
    pthread_mutex_unlock(&critical);
}

void GOMP_atomic_start(void)
{
    pthread_mutex_lock(&atomic);
}

void GOMP_atomic_end(void)
{
    pthread_mutex_unlock(&atomic);
}
