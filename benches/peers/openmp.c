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
