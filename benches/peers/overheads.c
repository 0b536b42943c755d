// What each OpenMP directive costs, in the manner of the EPCC microbenchmarks: short work inside a construct, again and
// again; the bench subtracts the time of the same work without it.
//
// Every entry takes `inner` and `checked`, runs the construct `inner` times, and, when `checked`, returns how often the work
// ran. Work inside what excludes others is counted by a plain variable, so that a lost exclusion shows. After a checked
// call `taken` says how many of a thousand tasks ran on another thread than their creator. Two threads everywhere.

#include <omp.h>
#include <stdint.h>
#include <time.h>

#define THREADS 2

static int checking;
static struct {
    _Alignas(128) uintptr_t ran, taken;
} counts[THREADS];
static uintptr_t exclusive;

// About 0.1 us that no compiler can shorten.
static inline void work(void)
{
    uint64_t state = 1;
    for (int step = 0; step < 100; step++) {
        state = state * 6364136223846793005u + 1;
        __asm__ volatile("" : "+r"(state));
    }
}

static inline void part(void)
{
    work();
    if (checking)
        counts[omp_get_thread_num() % THREADS].ran++;
}

static inline void task(int creator)
{
    work();
    if (checking) {
        int me = omp_get_thread_num() % THREADS;
        counts[me].ran++;
        counts[me].taken += me != creator;
    }
}

static inline void alone(void)
{
    work();
    exclusive++;
}

static uintptr_t ran(void)
{
    uintptr_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += counts[i].ran;
    return sum;
}

static void begin(uintptr_t checked)
{
    checking = (int)checked;
    exclusive = 0;
    for (int i = 0; i < THREADS; i++)
        counts[i].ran = counts[i].taken = 0;
}

uintptr_t taken(uintptr_t unused, uintptr_t unused2, uintptr_t unused3)
{
    (void)unused, (void)unused2, (void)unused3;
    uintptr_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += counts[i].taken;
    return ran() ? sum * 1000 / ran() : 0;
}

uintptr_t reference(uintptr_t inner, uintptr_t unused, uintptr_t unused2)
{
    (void)unused, (void)unused2;
    for (uintptr_t j = 0; j < inner; j++)
        work();
    return 0;
}

// An entry: `...` is the code, `RESULT` what a checked call returns.
#define ENTRY(NAME, RESULT, ...)                                       \
    uintptr_t NAME(uintptr_t inner, uintptr_t checked, uintptr_t none) \
    {                                                                  \
        (void)none;                                                    \
        begin(checked);                                                \
        __VA_ARGS__                                                    \
        return RESULT;                                                 \
    }
#define OMP(directive) _Pragma(directive)
#define TIMES for (uintptr_t j = 0; j < inner; j++)
#define HALF_TIMES for (uintptr_t j = 0; j < inner / THREADS; j++)
#define REGION _Pragma("omp parallel num_threads(THREADS)")

ENTRY(d_parallel, ran(), TIMES {
    REGION part();
})

ENTRY(d_for, ran(), REGION TIMES {
    OMP("omp for")
    for (int i = 0; i < THREADS; i++)
        part();
})

ENTRY(d_parallel_for, ran(), TIMES {
    OMP("omp parallel for num_threads(THREADS)")
    for (int i = 0; i < THREADS; i++)
        part();
})

ENTRY(d_barrier, ran(), REGION TIMES {
    part();
    OMP("omp barrier")
})

ENTRY(d_single, ran(), REGION TIMES {
    OMP("omp single")
    part();
})

// The sum is checked by the bench: each thread adds one.
ENTRY(d_reduction, checked ? ran() - (uintptr_t)(sum != (long)(THREADS * inner)) : 0, long sum = 0; TIMES {
    OMP("omp parallel num_threads(THREADS) reduction(+ : sum)")
    {
        part();
        sum += 1;
    }
})

ENTRY(d_single_copyprivate, ran(), REGION {
    int value = 0;
    TIMES {
        OMP("omp single copyprivate(value)")
        {
            part();
            value++;
        }
        if (checking && value != (int)j + 1)
            counts[0].ran += inner;
    }
})

ENTRY(d_masked, ran(), REGION TIMES {
    OMP("omp masked")
    part();
})

ENTRY(d_sections, ran(), REGION TIMES {
    OMP("omp sections")
    {
        OMP("omp section")
        part();
        OMP("omp section")
        part();
    }
})

ENTRY(d_for_nowait, ran(), REGION TIMES {
    OMP("omp for nowait")
    for (int i = 0; i < THREADS; i++)
        part();
})

// One iteration of a loop each time.
ENTRY(d_static_chunk, ran(), REGION {
    OMP("omp for schedule(static, 1)")
    for (uintptr_t j = 0; j < THREADS * inner; j++)
        part();
})

ENTRY(d_dynamic, ran(), REGION {
    OMP("omp for schedule(dynamic, 1)")
    for (uintptr_t j = 0; j < THREADS * inner; j++)
        part();
})

ENTRY(d_guided, ran(), REGION {
    OMP("omp for schedule(guided, 1)")
    for (uintptr_t j = 0; j < THREADS * inner; j++)
        part();
})

ENTRY(d_ordered, exclusive, REGION {
    OMP("omp for ordered schedule(static, 1)")
    for (uintptr_t j = 0; j < inner; j++) {
        OMP("omp ordered")
        alone();
    }
})

ENTRY(d_doacross, ran(), REGION {
    OMP("omp for ordered(1) schedule(static, 1)")
    for (long j = 0; j < (long)inner; j++) {
        OMP("omp ordered depend(sink : j - 1)")
        part();
        OMP("omp ordered depend(source)")
    }
})

// The same loop without a schedule: blocks are as good as anything else.
ENTRY(d_doacross_blocks, ran(), REGION {
    OMP("omp for ordered(1)")
    for (long j = 0; j < (long)inner; j++) {
        OMP("omp ordered depend(sink : j - 1)")
        part();
        OMP("omp ordered depend(source)")
    }
})

// Which thread runs which iteration. `schedule(static, 1)` deals iteration j to thread j modulo
// their number; these return how many of a thousand iterations ran on another thread.
static uintptr_t strays;

static inline void note(uintptr_t j)
{
    if (omp_get_thread_num() != (int)(j % THREADS))
        __atomic_fetch_add(&strays, 1, __ATOMIC_RELAXED);
}

ENTRY(dealt_ordered, strays * 1000 / inner, strays = 0; REGION {
    OMP("omp for ordered schedule(static, 1)")
    for (uintptr_t j = 0; j < inner; j++) {
        OMP("omp ordered")
        note(j);
    }
})

ENTRY(dealt_doacross, strays * 1000 / inner, strays = 0; REGION {
    OMP("omp for ordered(1) schedule(static, 1)")
    for (long j = 0; j < (long)inner; j++) {
        OMP("omp ordered depend(sink : j - 1)")
        note((uintptr_t)j);
        OMP("omp ordered depend(source)")
    }
})

ENTRY(d_critical, exclusive, REGION HALF_TIMES {
    OMP("omp critical")
    alone();
})

ENTRY(d_critical_named, exclusive, REGION HALF_TIMES {
    OMP("omp critical(mine)")
    alone();
})

ENTRY(d_lock, exclusive, omp_lock_t lock; omp_init_lock(&lock); REGION HALF_TIMES {
    omp_set_lock(&lock);
    alone();
    omp_unset_lock(&lock);
} omp_destroy_lock(&lock);)

ENTRY(d_nest_lock, exclusive, omp_nest_lock_t lock; omp_init_nest_lock(&lock); REGION HALF_TIMES {
    omp_set_nest_lock(&lock);
    alone();
    omp_unset_nest_lock(&lock);
} omp_destroy_nest_lock(&lock);)

// The compiler's own instructions; no library is asked.
ENTRY(d_atomic, sum, uintptr_t sum = 0; REGION HALF_TIMES {
    OMP("omp atomic")
    sum += 1;
    work();
})

// What the processor cannot do in one instruction.
ENTRY(d_atomic_wide, (uintptr_t)sum, long double sum = 0; REGION HALF_TIMES {
    OMP("omp atomic")
    sum += 1;
    work();
})

// What an uncontended lock costs: one thread of the two.
ENTRY(d_critical_uncontended, exclusive, REGION if (omp_get_thread_num() == 0) TIMES {
    OMP("omp critical")
    alone();
})

// Task patterns.

ENTRY(t_parallel, ran(), REGION {
    int me = omp_get_thread_num();
    TIMES {
        OMP("omp task")
        task(me);
    }
})

ENTRY(t_parallel_depend, ran(), REGION {
    int me = omp_get_thread_num();
    char block[16];
    (void)block;
    TIMES {
        OMP("omp task depend(inout : block[j % 16])")
        task(me);
    }
    OMP("omp taskwait")
})

ENTRY(t_producer, ran(), REGION {
    OMP("omp masked")
    for (uintptr_t j = 0; j < THREADS * inner; j++) {
        OMP("omp task")
        task(0);
    }
})

ENTRY(t_producer_depend, ran(), REGION {
    OMP("omp masked")
    {
        static char block[16];
        (void)block;
        for (uintptr_t j = 0; j < THREADS * inner; j++) {
            OMP("omp task depend(inout : block[j % 16])")
            task(0);
        }
    }
})

// The other thread works all the time and comes late.
ENTRY(t_producer_alone, ran(), REGION {
    if (omp_get_thread_num() == 0) {
        TIMES {
            OMP("omp task")
            task(0);
        }
        OMP("omp taskwait")
    } else {
        TIMES part();
    }
})

ENTRY(t_taskwait, ran(), REGION {
    int me = omp_get_thread_num();
    TIMES {
        OMP("omp task")
        task(me);
        OMP("omp taskwait")
    }
})

ENTRY(t_taskgroup, ran(), REGION {
    int me = omp_get_thread_num();
    TIMES {
        OMP("omp taskgroup")
        {
            OMP("omp task")
            task(me);
        }
    }
})

ENTRY(t_barrier, ran(), REGION {
    int me = omp_get_thread_num();
    TIMES {
        OMP("omp task")
        task(me);
        OMP("omp barrier")
    }
})

ENTRY(t_if0, ran(), REGION {
    int me = omp_get_thread_num();
    TIMES {
        OMP("omp task if(0)")
        task(me);
    }
})

ENTRY(t_nested, ran(), REGION HALF_TIMES {
    OMP("omp task")
    {
        int me = omp_get_thread_num();
        for (int i = 0; i < THREADS; i++) {
            OMP("omp task")
            task(me);
        }
        OMP("omp taskwait")
    }
})

ENTRY(t_producer_nested, ran(), REGION {
    OMP("omp masked")
    TIMES {
        OMP("omp task")
        {
            int me = omp_get_thread_num();
            for (int i = 0; i < THREADS; i++) {
                OMP("omp task")
                task(me);
            }
            OMP("omp taskwait")
        }
    }
})

ENTRY(t_taskloop, ran(), REGION {
    OMP("omp masked")
    OMP("omp taskloop grainsize(1)")
    for (uintptr_t j = 0; j < THREADS * inner; j++)
        task(0);
})

static void branch(uintptr_t nodes, int creator)
{
    task(creator);
    if (nodes <= 1)
        return;
    int me = omp_get_thread_num();
    uintptr_t left = (nodes - 1) / 2, right = nodes - 1 - left;
    if (left) {
        OMP("omp task")
        branch(left, me);
    }
    OMP("omp task")
    branch(right, me);
    OMP("omp taskwait")
}

// Each thread a tree with work in every node.
ENTRY(t_branch_tree, ran(), REGION branch(inner, omp_get_thread_num());)

static void leaf(uintptr_t leaves, int creator)
{
    if (leaves <= 1)
        return task(creator);
    int me = omp_get_thread_num();
    OMP("omp task")
    leaf(leaves / 2, me);
    OMP("omp task")
    leaf(leaves - leaves / 2, me);
    OMP("omp taskwait")
}

// Each thread a tree with work in its leaves.
ENTRY(t_leaf_tree, ran(), REGION leaf(inner, omp_get_thread_num());)

// Nested teams with a barrier in the inner ones.
ENTRY(d_nested, ran(), TIMES {
    OMP("omp parallel num_threads(2)")
    {
        int outer = omp_get_thread_num();
        OMP("omp parallel num_threads(2)")
        {
            if (checking)
                __atomic_fetch_add(&counts[outer].ran, 1, __ATOMIC_RELAXED);
            OMP("omp barrier")
        }
    }
})

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Not inside `taking`: gcc would give each task a copy.
static volatile uint64_t begun;

// One thread waits at the region's barrier; the other creates a task after `gap` ns and never comes to a scheduling point
// before it has begun. Returns the median of `rounds` times from creation to begin, in ns; 0 when one was not taken within
// 50 ms.
uintptr_t taking(uintptr_t gap, uintptr_t rounds, uintptr_t unused)
{
    (void)unused;
    static uint64_t times[4096];
    uintptr_t wrong = 0;
    if (rounds > 4096)
        rounds = 4096;
    REGION if (omp_get_thread_num() == 0)
    {
        for (uintptr_t round = 0; round < rounds; round++) {
            begun = 0;
            uint64_t pause = now() + gap;
            while (now() < pause)
                continue;
            uint64_t created = now();
            OMP("omp task")
            begun = now();
            while (!begun && now() < created + 50000000)
                continue;
            if (!begun)
                wrong = 1;
            OMP("omp taskwait")
            times[round] = begun - created;
        }
    }
    for (uintptr_t i = 1; i < rounds; i++) {
        uint64_t time = times[i];
        uintptr_t j = i;
        for (; j > 0 && times[j - 1] > time; j--)
            times[j] = times[j - 1];
        times[j] = time;
    }
    return wrong ? 0 : times[rounds / 2];
}
