/* User-level page migration: see src/abi/upm.rs, of which this file is made. */
#ifndef NANOS_UPM_H
#define NANOS_UPM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Above 0 when another call of upmlib_migrate_memory is worth making: how many pages the last one
   moved, or 1 while it was too early to decide, and before the first call. */
extern int num_migrations;

/* The same for Fortran: common /num_migrations/ num_migrations */
extern int num_migrations_;

/* Begins, or begins anew: no area is hot then. 0, or -1 when the machine's memory nodes cannot be
   read. On a machine with one node the other calls do nothing. */
int upmlib_init(void);

/* Names a hot area: an array that parallel loops read and write. It has to stay mapped until the
   next upmlib_init. From now on references are counted, in parallel regions, where no system call
   may be given a hot area. 0, or -1 and a line on stderr: no byte, not mapped, not plain memory,
   or a part of another area. */
int upmlib_memrefcnt(const void *addr, size_t size);

/* After an iteration of the outer loop: moves pages to the nodes that use them most, and returns
   how many moved. Once num_migrations is 0 it does nothing, and nothing is counted any more. */
int upmlib_migrate_memory(void);

/* A border of the phases of an iteration: before the first one, and after each. */
void upmlib_record(void);

/* After the recorded iteration: decides which pages move before which phase, and returns how many
   moves an iteration has. */
int upmlib_compare_counters(void);

/* Before each phase of a later iteration, in the same order: moves its pages, and returns how many
   moved. */
int upmlib_replay(void);

/* After the last phase: returns pages to where they were, and how many those are. */
int upmlib_undo(void);

/* The calling thread touches these bytes once. A program that says so of each thread's part of its
   loops has references counted exactly, and no access faults: the first such call ends sampling. */
void upmlib_touched(const void *addr, size_t size);

/* The same for the iterations from first to last - 1 of a loop, of which iteration i touches bytes
   bytes at base + i * stride. */
void upmlib_loop(const void *base, size_t stride, size_t bytes, size_t first, size_t last);

/* The same calls for Fortran: sizes are integers of the default kind. An area of 2 GiB or more is
   named in parts. */
int upmlib_init_(void);

/* See above. */
int upmlib_memrefcnt_(const void *addr, const int *size);

/* See above. */
int upmlib_migrate_memory_(void);

/* See above. */
void upmlib_record_(void);

/* See above. */
int upmlib_compare_counters_(void);

/* See above. */
int upmlib_replay_(void);

/* See above. */
int upmlib_undo_(void);

/* See above. */
void upmlib_touched_(const void *addr, const int *size);

/* See above; a negative number is 0. */
void upmlib_loop_(
    const void *base, const int *stride, const int *bytes, const int *first, const int *last);

#ifdef __cplusplus
}
#endif

#endif
