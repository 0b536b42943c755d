// The OpenMP side of the benches, for libgomp and (by its libgomp entry points) libomp.
//
// Every entry takes three words and returns one. Bodies are C functions of the bench; the same ones run on every engine.

#include <omp.h>
#include <stdint.h>

typedef void (*body_t)(uint32_t);

// A region of `threads` threads.
uintptr_t region(uintptr_t body, uintptr_t threads, uintptr_t unused)
{
    (void)unused;
    body_t run = (body_t)body;
#pragma omp parallel num_threads((int)threads)
    run((uint32_t)omp_get_thread_num());
    return 0;
}

static struct { _Alignas(128) volatile uintptr_t round; } places[64];

// One region of two threads with `rounds` barriers. `checked`: returns how often a thread left a barrier before the other
// had reached it.
uintptr_t barriers(uintptr_t rounds, uintptr_t checked, uintptr_t unused)
{
    (void)unused;
    uintptr_t wrong = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    {
        int me = omp_get_thread_num();
        if (checked) {
            for (uintptr_t round = 1; round <= rounds; round++) {
                places[me].round = round;
#pragma omp barrier
                if (places[1 - me].round != round)
                    wrong++;
#pragma omp barrier
            }
        } else {
            for (uintptr_t round = 0; round < rounds; round++) {
#pragma omp barrier
            }
        }
        if (omp_get_num_threads() != 2)
            wrong++;
    }
    return wrong;
}

// `outer` * 1000 + `inner` threads; part numbers are outer * inner + own.
uintptr_t nested(uintptr_t body, uintptr_t shape, uintptr_t barrier)
{
    body_t run = (body_t)body;
    int outer = (int)(shape / 1000), inner = (int)(shape % 1000);
#pragma omp parallel num_threads(outer)
    {
        int group = omp_get_thread_num();
#pragma omp parallel num_threads(inner)
        {
            run((uint32_t)(group * inner + omp_get_thread_num()));
            if (barrier) {
#pragma omp barrier
            }
        }
    }
    return 0;
}

// Two threads, `count` inner regions of one thread each.
uintptr_t inner_of_one(uintptr_t body, uintptr_t count, uintptr_t unused)
{
    (void)unused;
    body_t run = (body_t)body;
#pragma omp parallel num_threads(2)
    {
        uint32_t me = (uint32_t)omp_get_thread_num();
        for (uintptr_t n = 0; n < count; n++) {
#pragma omp parallel num_threads(1)
            run(me);
        }
    }
    return 0;
}

static uintptr_t fib(uintptr_t n)
{
    if (n < 2)
        return n;
    uintptr_t a, b;
#pragma omp task shared(a)
    a = fib(n - 1);
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

// The Fibonacci number of `n`, a task for each call but the second of two.
uintptr_t fibonacci(uintptr_t n, uintptr_t unused, uintptr_t unused2)
{
    (void)unused, (void)unused2;
    uintptr_t result = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    result = fib(n);
    return result;
}

typedef uint32_t (*expand_t)(uint64_t, uint32_t);
typedef uint64_t (*child_t)(uint64_t, uint32_t);

static void node(uint64_t state, uint32_t depth, expand_t expand, child_t child)
{
    uint32_t children = expand(state, depth);
    for (uint32_t i = 0; i < children; i++) {
#pragma omp task
        node(child(state, i), depth + 1, expand, child);
    }
}

// Visits the tree below `root`, a task for each node.
uintptr_t tree(uintptr_t root, uintptr_t expand, uintptr_t child)
{
#pragma omp parallel num_threads(2)
#pragma omp single
    node(root, 0, (expand_t)expand, (child_t)child);
    return 0;
}

struct operation { int32_t reads[2], writes; };

// `count` tasks run(0), run(1), ... with dependences between what `operations` names; a negative number names nothing.
uintptr_t dependent(uintptr_t operations, uintptr_t count, uintptr_t run)
{
    static char block[1 << 16];
    (void)block; // gcc does not see that it is named in depend
    const struct operation *op = (const struct operation *)operations;
    body_t body = (body_t)run;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (uint32_t n = 0; n < count; n++) {
        int32_t a = op[n].reads[0], b = op[n].reads[1], w = op[n].writes;
        if (b >= 0) {
#pragma omp task depend(in : block[a], block[b]) depend(inout : block[w])
            body(n);
        } else if (a >= 0) {
#pragma omp task depend(in : block[a]) depend(inout : block[w])
            body(n);
        } else {
#pragma omp task depend(inout : block[w])
            body(n);
        }
    }
    return 0;
}

// `count` tasks by one producer.
uintptr_t produce(uintptr_t count, uintptr_t run, uintptr_t unused)
{
    (void)unused;
    body_t body = (body_t)run;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (uint32_t n = 0; n < count; n++) {
#pragma omp task
        body(n);
    }
    return 0;
}

// Loops of `length` iterations; chunk 0: the schedule's own.
uintptr_t loop_static(uintptr_t body, uintptr_t length, uintptr_t chunk)
{
    body_t run = (body_t)body;
    if (chunk) {
#pragma omp parallel for num_threads(2) schedule(static, chunk)
        for (uint32_t i = 0; i < length; i++)
            run(i);
    } else {
#pragma omp parallel for num_threads(2) schedule(static)
        for (uint32_t i = 0; i < length; i++)
            run(i);
    }
    return 0;
}

uintptr_t loop_dynamic(uintptr_t body, uintptr_t length, uintptr_t chunk)
{
    body_t run = (body_t)body;
#pragma omp parallel for num_threads(2) schedule(dynamic, chunk)
    for (uint32_t i = 0; i < length; i++)
        run(i);
    return 0;
}

uintptr_t loop_guided(uintptr_t body, uintptr_t length, uintptr_t chunk)
{
    body_t run = (body_t)body;
#pragma omp parallel for num_threads(2) schedule(guided, chunk)
    for (uint32_t i = 0; i < length; i++)
        run(i);
    return 0;
}

uintptr_t loop_runtime(uintptr_t body, uintptr_t length, uintptr_t unused)
{
    (void)unused;
    body_t run = (body_t)body;
#pragma omp parallel for num_threads(2) schedule(runtime)
    for (uint32_t i = 0; i < length; i++)
        run(i);
    return 0;
}
