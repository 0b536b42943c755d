// APPBT: BT whose z solve is a pipeline on two levels (ICS 1999, section 5.2; rule F9).
//
// The outer level shares out the rows of lines in y among groups of threads. Inside a group the
// z direction itself is shared out: each thread eliminates its own part of every line, after the
// thread before it. Both loops are parallel, and the inner one is ordered: block b, one row of
// lines, runs on thread p + 1 when block b has finished on thread p, which goes on with block
// b + 1. The substitution goes back in the same manner. What elimination leaves is kept for all
// lines between the two: 200 bytes a point.
#include "cfd_block.h"

#include <omp.h>

static cfd_block *upper; // n blocks for every pair of lines
static int groups, members;

static cfd_block *upper_of(const struct cfd *cfd, int i, int j)
{
    ptrdiff_t pairs = (cfd->n - 1) / 2;
    return upper + ((j - 1) * pairs + (i - 1) / 2) * cfd->n;
}

// The points of a part of every line: [bound(part), bound(part + 1)).
static int bound(const struct cfd *cfd, int part)
{
    return 1 + (cfd->n - 2) * part / members;
}

static void eliminate_row(const struct cfd *cfd, int j, int part)
{
    const int first = bound(cfd, part), end = bound(cfd, part + 1), inner = cfd->n - 2;
    if (first < end)
        for (int i = 1; i <= inner; i += 2)
            cfd_eliminate(cfd, 2, cfd_lines(cfd, 2, i, j, inner), first, end, upper_of(cfd, i, j));
}

static void substitute_row(const struct cfd *cfd, int j, int part)
{
    const int first = bound(cfd, part), end = bound(cfd, part + 1), inner = cfd->n - 2;
    if (first < end)
        for (int i = 1; i <= inner; i += 2)
            cfd_substitute(cfd, 2, cfd_lines(cfd, 2, i, j, inner), first, end, upper_of(cfd, i, j));
}

static void solve_pipelined(const struct cfd *cfd)
{
    const int inner = cfd->n - 2;
#pragma omp parallel for schedule(static, 1) num_threads(groups)
    for (int group = 0; group < groups; group++) {
        const int first = 1 + inner * group / groups, end = 1 + inner * (group + 1) / groups;
#pragma omp parallel num_threads(members)
        {
            for (int j = first; j < end; j++) {
#pragma omp for ordered schedule(static, 1) nowait
                for (int part = 0; part < members; part++) {
#pragma omp ordered
                    eliminate_row(cfd, j, part);
                }
            }
#pragma omp barrier
            for (int j = first; j < end; j++) {
#pragma omp for ordered schedule(static, 1) nowait
                for (int part = members - 1; part >= 0; part--) {
#pragma omp ordered
                    substitute_row(cfd, j, part);
                }
            }
        }
    }
}

// The most groups of at least as many members each: 2 threads are one group of two, 4 are two
// groups of two, 24 are four groups of six.
static void share_out(int threads)
{
    members = 1;
    while (members * members < threads || threads % members != 0)
        members++;
    groups = threads / members;
}

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct cfd_bt_class *class = &cfd_bt_classes[options_row(&options)];
    struct cfd cfd;
    cfd_open(&cfd, class->n, class->dt);
    share_out(omp_get_max_threads());
    omp_set_max_active_levels(2);
    upper = report_memory("the eliminated blocks",
                          (size_t)(class->n - 2) * (size_t)((class->n - 1) / 2) * (size_t)class->n,
                          sizeof *upper);
    struct report report = report_begin("appbt", &options, class->steps,
                                        cfd_bt_operations(class));
    while (report_again(&report)) {
        cfd_initialise(&cfd);
        report_start(&report);
        for (int step = 0; step < class->steps; step++) {
            cfd_rhs(&cfd, class->dt);
            cfd_block_solve(&cfd, 0);
            cfd_block_solve(&cfd, 1);
            solve_pipelined(&cfd);
            cfd_add(&cfd, 1.0);
        }
        report_stop(&report);
        cfd_rhs(&cfd, class->dt);
        cfd_verify(&cfd, &report.checks, class->dt, class->residual, class->error);
    }
    return report_end(&report);
}
