#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool check_close(struct checks *checks, const char *name, double value, double expected,
                 double tolerance)
{
    if (checks->count == checks->room) {
        checks->room = checks->room == 0 ? 16 : 2 * checks->room;
        checks->list = realloc(checks->list, checks->room * sizeof checks->list[0]);
        if (checks->list == NULL) {
            fprintf(stderr, "no memory for %zu checks\n", checks->room);
            exit(1);
        }
    }
    struct check *check = &checks->list[checks->count++];
    snprintf(check->name, sizeof check->name, "%s", name);
    check->value = value;
    check->expected = expected;
    check->tolerance = tolerance;
    check->error = fabs(value - expected);
    if (expected != 0)
        check->error /= fabs(expected);
    check->passed = check->error <= tolerance; // false for what is not a number
    return check->passed;
}

bool check_equal(struct checks *checks, const char *name, long long value, long long expected)
{
    return check_close(checks, name, (double)value, (double)expected, 0);
}

bool checks_passed(const struct checks *checks)
{
    for (size_t i = 0; i < checks->count; i++)
        if (!checks->list[i].passed)
            return false;
    return checks->count > 0;
}

void checks_clear(struct checks *checks)
{
    checks->count = 0;
}
