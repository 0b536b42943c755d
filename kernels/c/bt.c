// BT: the implicit time steps of the flow problem by three block tridiagonal factors.
#include "cfd_block.h"
#include "common/outer.h"

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv, NULL);
    const struct cfd_bt_class *class = &cfd_bt_classes[options_row(&options)];
    struct cfd cfd;
    cfd_open(&cfd, class->n, class->dt);
    struct report report = report_begin("bt", &options, class->steps, cfd_bt_operations(class));
    const int repeats = OUTER_REPEATS();
    while (report_again(&report)) {
        cfd_initialise(&cfd);
        report_start(&report);
        for (int step = 0; step < class->steps; step++) {
            OUTER_BEGIN();
            for (int repeat = 0; repeat < repeats; repeat++)
                cfd_rhs(&cfd, class->dt);
            OUTER_PHASE();
            for (int direction = 0; direction < 3; direction++) {
                for (int repeat = 0; repeat < repeats; repeat++)
                    cfd_block_solve(&cfd, direction);
                OUTER_PHASE();
            }
            cfd_add(&cfd, 1.0);
            OUTER_END();
        }
        report_stop(&report);
        cfd_rhs(&cfd, class->dt);
        cfd_verify(&cfd, &report.checks, class->dt, class->residual, class->error);
    }
    return report_end(&report);
}
