// An OpenMP runtime for ThreadSanitizer: what gcc calls for the constructs that the kernels use,
// on plain POSIX threads, which ThreadSanitizer understands. (The system's libgomp is not
// instrumented: every fork and join would look like a race.) `make race` links the kernels with it.
//
// Every region starts its threads and joins them, so that the only order between two threads is
// the one that OpenMP promises.

#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// An ordered or doacross loop, which the team's threads may leave for the next one in any order.
struct order {
    long number;   // of such loops in this region
    long turn;     // ordered: the iteration whose turn it is
    long *posted;  // doacross: of each outer iteration, how many inner ones are finished
    struct order *older;
};

struct team {
    int size;
    pthread_barrier_t barrier;
    pthread_mutex_t lock;  // of all that follows
    pthread_cond_t passed; // a turn or an iteration
    long next, end, chunk; // the loop, or the sections
    struct order *orders;
};

struct member {
    struct team *team;
    int number;
    void (*work)(void *);
    void *data;
    long orders;                   // ordered and doacross loops that it has begun
    struct order *order;           // the last one
    long start, step, count, next; // that loop, static with chunks of one iteration
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

int omp_get_dynamic(void)
{
    return 0;
}

int omp_get_thread_limit(void)
{
    return INT_MAX;
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
    pthread_cond_init(&team->passed, NULL);
    struct member member[team->size];
    pthread_t thread[team->size];
    for (int i = 0; i < team->size; i++)
        member[i] = (struct member){ .team = team, .number = i, .work = work, .data = data };
    for (int i = 1; i < team->size; i++)
        if (pthread_create(&thread[i], NULL, run, &member[i]) != 0) {
            fprintf(stderr, "race_runtime: no thread %d\n", i);
            exit(1);
        }
    run(&member[0]);
    for (int i = 1; i < team->size; i++)
        pthread_join(thread[i], NULL);
    while (team->orders != NULL) {
        struct order *order = team->orders;
        team->orders = order->older;
        free(order->posted);
        free(order);
    }
    pthread_barrier_destroy(&team->barrier);
    pthread_cond_destroy(&team->passed);
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

void GOMP_parallel_sections(void (*work)(void *), void *data, unsigned threads, unsigned count,
                            unsigned flags)
{
    (void)flags;
    struct team team = { .next = 1, .end = (long)count + 1 };
    fork_join(work, data, threads, &team);
}

// The next section, counted from 1; 0: there is none.
unsigned GOMP_sections_next(void)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    long section = team->next < team->end ? team->next++ : 0;
    pthread_mutex_unlock(&team->lock);
    return (unsigned)section;
}

void GOMP_sections_end_nowait(void)
{
}

// The next of this thread's iterations, every `size`th one.
bool GOMP_loop_static_next(long *from, long *to)
{
    if (self->next >= self->count)
        return false;
    *from = self->start + self->next * self->step;
    *to = *from + self->step;
    self->next += self->team->size;
    return true;
}

// Begins the member's next ordered or doacross loop, which the first one of the team adds.
static void begin_order(long start, long step, long count, long chunk, bool doacross)
{
    struct team *team = self->team;
    if (chunk != 1)
        abort();
    const long number = self->orders++;
    pthread_mutex_lock(&team->lock);
    struct order *order = team->orders;
    while (order != NULL && order->number != number)
        order = order->older;
    if (order == NULL) {
        order = calloc(1, sizeof *order);
        if (order == NULL)
            abort();
        if (doacross && !(order->posted = calloc((size_t)count + 1, sizeof(long))))
            abort();
        order->number = number;
        order->older = team->orders;
        team->orders = order;
    }
    pthread_mutex_unlock(&team->lock);
    self->order = order;
    self->start = start;
    self->step = step;
    self->count = count;
    self->next = self->number;
}

bool GOMP_loop_ordered_static_start(long start, long end, long step, long chunk, long *from,
                                    long *to)
{
    const long span = step > 0 ? end - start + step - 1 : end - start + step + 1;
    begin_order(start, step, span / step > 0 ? span / step : 0, chunk, false);
    return GOMP_loop_static_next(from, to);
}

bool GOMP_loop_ordered_static_next(long *from, long *to)
{
    return GOMP_loop_static_next(from, to);
}

void GOMP_ordered_start(void)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    while (self->order->turn != self->next - team->size)
        pthread_cond_wait(&team->passed, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void GOMP_ordered_end(void)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    self->order->turn++;
    pthread_cond_broadcast(&team->passed);
    pthread_mutex_unlock(&team->lock);
}

// Two loops, the outer one shared out: what `ordered(2)` becomes, its iterations counted from 0.
bool GOMP_loop_doacross_static_start(unsigned loops, long *counts, long chunk, long *from, long *to)
{
    if (loops != 2)
        abort();
    begin_order(0, 1, counts[0], chunk, true);
    return GOMP_loop_static_next(from, to);
}

// A thread finishes the inner iterations one after the other.
void GOMP_doacross_post(long *at)
{
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    self->order->posted[at[0]] = at[1] + 1;
    pthread_cond_broadcast(&team->passed);
    pthread_mutex_unlock(&team->lock);
}

void GOMP_doacross_wait(long outer, ...)
{
    struct team *team = self->team;
    va_list rest;
    va_start(rest, outer);
    const long inner = va_arg(rest, long);
    va_end(rest);
    pthread_mutex_lock(&team->lock);
    while (self->order->posted[outer] <= inner)
        pthread_cond_wait(&team->passed, &team->lock);
    pthread_mutex_unlock(&team->lock);
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
