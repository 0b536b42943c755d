// The command line that all kernels share.
//
//     NAME [--class S|W|A|B] [--seconds T | --repeat N] [--json] [--quiet]
//
// A wrong command line is an error on stderr and exit code 2.
#ifndef KERNELS_OPTIONS_H
#define KERNELS_OPTIONS_H

#include <stdbool.h>

struct options {
    char class;     // S, W, A or B; S without the option
    double seconds; // repeat until this much time has passed; 0: count by `repeat`
    long repeat;    // repetitions, at least 1
    bool json;      // one JSON line, the last on stdout
    bool quiet;     // no text on stdout (errors still go to stderr)
};

// A program's own option with a whole number, `--NAME N`; `value` holds the default.
struct option_extra {
    const char *name;
    const char *meaning;
    long least;
    long *value;
};

// Reads the command line; `extra` ends with an entry without a name, or is NULL.
struct options options_read(int argc, char **argv, const struct option_extra *extra);

// The index of the class in "SWAB": for tables with one row a class.
int options_row(const struct options *options);

#endif
