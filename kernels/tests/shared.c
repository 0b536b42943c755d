// Tests of the C kernels' shared part: random numbers, checks, and that a wrong result fails loudly.
#include "common/options.h"
#include "common/pairs.h"
#include "common/random.h"
#include "common/report.h"
#include "common/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "shared part: %s\n", what);
        exit(1);
    }
}

static void a_skip_is_as_many_steps(void)
{
    uint64_t stepped = UINT64_C(314159265);
    for (int i = 0; i < 1000; i++) {
        expect(random_skip(UINT64_C(314159265), (uint64_t)i) == stepped, "a skip goes wrong");
        double number = random_next(&stepped);
        expect(number > 0 && number < 1, "a random number lies outside (0, 1)");
    }
}

static void wrong_values_fail(void)
{
    struct checks checks = { 0 };
    expect(!checks_passed(&checks), "no checks count as passed");
    expect(check_close(&checks, "close", 1 + 1e-9, 1, 1e-8), "a close value fails");
    expect(check_equal(&checks, "equal", 5, 5), "an equal number fails");
    expect(checks_passed(&checks), "passed checks fail together");
    expect(!check_close(&checks, "far", 1 + 1e-7, 1, 1e-8), "a far value passes");
    expect(!checks_passed(&checks), "one failure is forgotten");
    checks_clear(&checks);
    expect(!check_close(&checks, "undefined", NAN, 1, 1e-8), "what is no number passes");
    expect(!check_close(&checks, "infinite", INFINITY, 1, 1e-8), "an infinite value passes");
    expect(!check_equal(&checks, "unequal", 5, 6), "an unequal number passes");
    expect(isnan(larger_difference(larger_difference(0, NAN), 1)), "what is no number is lost");
}

// A wrong sum of EP, as a kernel would report it: exit code 1, and no second repetition.
static void a_failed_repetition_is_the_last(void)
{
    struct options options = { .class = 'S', .repeat = 3, .quiet = true };
    struct report report = report_begin("planted", &options, 1, 1);
    struct pairs sums = { .sum_x = -3247.8346520347 * (1 + 1e-7), .sum_y = -6958.4070783822 };
    int repetitions = 0;
    while (report_again(&report)) {
        report_start(&report);
        report_stop(&report);
        pairs_check(&report.checks, &options, &sums);
        repetitions++;
    }
    expect(repetitions == 1, "a failed repetition is not the last one");
    fclose(stderr); // the planted failure's words
    int code = report_end(&report);
    if (code != 1) {
        printf("shared part: a failed verification gives exit code %d\n", code);
        exit(1);
    }
}

int main(void)
{
    a_skip_is_as_many_steps();
    wrong_values_fail();
    a_failed_repetition_is_the_last();
    printf("the shared part does what it should\n");
    return 0;
}
