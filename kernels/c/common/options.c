#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char classes[] = "SWAB";

static const char *program_name(char **argv)
{
    if (argv[0] == NULL)
        return "kernel";
    const char *slash = strrchr(argv[0], '/');
    return slash == NULL ? argv[0] : slash + 1;
}

static void usage(FILE *to, char **argv, const struct option_extra *extra)
{
    fprintf(to, "usage: %s [--class S|W|A|B] [--seconds T | --repeat N] [--json] [--quiet]",
            program_name(argv));
    for (const struct option_extra *e = extra; e != NULL && e->name != NULL; e++)
        fprintf(to, " [--%s N]", e->name);
    fputc('\n', to);
    for (const struct option_extra *e = extra; e != NULL && e->name != NULL; e++)
        fprintf(to, "  --%s: %s (here %ld)\n", e->name, e->meaning, *e->value);
}

static _Noreturn void refuse(char **argv, const struct option_extra *extra, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    fprintf(stderr, "%s: ", program_name(argv));
    vfprintf(stderr, why, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    usage(stderr, argv, extra);
    exit(2);
}

static long whole(char **argv, const struct option_extra *extra, const char *option,
                  const char *text, long least)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < least)
        refuse(argv, extra, "%s: '%s' is not a whole number of at least %ld", option, text, least);
    return value;
}

struct options options_read(int argc, char **argv, const struct option_extra *extra)
{
    struct options options = { .class = 'S', .repeat = 1 };
    bool counted = false, limited = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--json") == 0) {
            options.json = true;
            continue;
        }
        if (strcmp(option, "--quiet") == 0) {
            options.quiet = true;
            continue;
        }
        if (strcmp(option, "--help") == 0) {
            usage(stdout, argv, extra);
            exit(fflush(stdout) == 0 ? 0 : 1);
        }
        const struct option_extra *own = extra;
        while (own != NULL && own->name != NULL
               && (strncmp(option, "--", 2) != 0 || strcmp(option + 2, own->name) != 0))
            own++;
        bool known = (own != NULL && own->name != NULL) || strcmp(option, "--class") == 0
                     || strcmp(option, "--seconds") == 0 || strcmp(option, "--repeat") == 0;
        if (!known)
            refuse(argv, extra, "unknown option '%s'", option);
        if (i + 1 >= argc)
            refuse(argv, extra, "%s needs a value", option);
        const char *text = argv[++i];
        if (strcmp(option, "--class") == 0) {
            if (strlen(text) != 1 || strchr(classes, text[0]) == NULL)
                refuse(argv, extra, "unknown class '%s': S, W, A and B exist", text);
            options.class = text[0];
        } else if (strcmp(option, "--seconds") == 0) {
            char *end;
            options.seconds = strtod(text, &end);
            if (end == text || *end != '\0' || !isfinite(options.seconds) || options.seconds <= 0)
                refuse(argv, extra, "--seconds: '%s' is not a time above 0", text);
            limited = true;
        } else if (strcmp(option, "--repeat") == 0) {
            options.repeat = whole(argv, extra, option, text, 1);
            counted = true;
        } else {
            *own->value = whole(argv, extra, option, text, own->least);
        }
    }
    if (counted && limited)
        refuse(argv, extra, "--seconds and --repeat exclude each other");
    return options;
}

int options_row(const struct options *options)
{
    return (int)(strchr(classes, options->class) - classes);
}
