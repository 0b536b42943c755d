// LU: the implicit time steps of the flow problem by symmetric successive over-relaxation, its
// sweeps pipelined by flags in this program's own code.
//
// Each thread has its rows of every plane. It may begin with a plane when the thread before it
// has finished its rows of that plane: it spins on that thread's count of planes. Nothing here
// tells the runtime that a thread waits; that is what this kernel is for. After many looks the
// thread offers its processor to the operating system: without that, more threads than
// processors take a time slice to pass each plane on. With `--looks 0` it never does.
#define _POSIX_C_SOURCE 200809L
#include "cfd_lu.h"

#include <omp.h>
#include <sched.h>

// A thread's count of finished planes, over all sweeps since the start; on lines of its own.
struct count {
    long planes;
    char rest[128 - sizeof(long)];
};

static struct count *counts;
static long finished;      // planes of all sweeps before this one
static long looks = 10000; // at a count, before the processor is offered; 0: never

// 1. The thread before writes its rows, then (release) its count. 2. This one reads the count
// (acquire), then the rows.
static void await(const struct count *count, long planes)
{
    long seen, looked = 0;
    for (;;) {
#pragma omp atomic read acquire
        seen = count->planes;
        if (seen >= planes)
            break;
        if (++looked == looks) {
            looked = 0;
            sched_yield();
        }
    }
}

static void publish(struct count *count)
{
#pragma omp atomic update release
    count->planes++;
}

static inline void sweep(struct cfd *cfd, bool back)
{
    const int inner = cfd->n - 2;
#pragma omp parallel
    {
        const int threads = omp_get_num_threads(), me = omp_get_thread_num();
        const int first = 1 + inner * me / threads, end = 1 + inner * (me + 1) / threads;
        const int before = back ? me + 1 : me - 1;
        // No thread waits for less: also after a smaller team. A neighbour may look already.
#pragma omp atomic write
        counts[me].planes = finished;
        for (int plane = 1; plane <= inner; plane++) {
            if (before >= 0 && before < threads)
                await(&counts[before], finished + plane);
            if (back)
                for (int j = end - 1; j >= first; j--)
                    cfd_lu_upper(cfd, j, inner + 1 - plane);
            else
                for (int j = first; j < end; j++)
                    cfd_lu_lower(cfd, j, plane);
            publish(&counts[me]);
        }
    }
    finished += inner;
}

static void lower(struct cfd *cfd)
{
    sweep(cfd, false);
}

static void upper(struct cfd *cfd)
{
    sweep(cfd, true);
}

int main(int argc, char **argv)
{
    const size_t threads = (size_t)omp_get_max_threads();
    counts = report_memory("the counts of planes", threads, sizeof *counts);
    for (size_t t = 0; t < threads; t++)
        counts[t].planes = 0;
    const struct option_extra extra[] = {
        { "looks", "looks at a flag before the thread yields its processor, 0: never", 0, &looks },
        { NULL, NULL, 0, NULL },
    };
    return cfd_lu_run("lu", argc, argv, extra, lower, upper);
}
