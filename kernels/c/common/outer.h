// What a tool that is linked to a kernel learns of it: the arrays that its loops share, the borders
// of its outer loop and of the phases in it, and what each thread's part of a loop touches. Without
// a tool all of this is nothing.
//
// What is touched is said by loops of their own, in the distribution of those that they stand for,
// and only while the tool asks: the loops that compute are as without it.
#ifndef KERNELS_OUTER_H
#define KERNELS_OUTER_H

#include <stdbool.h>
#include <stddef.h>

// An array, not touched yet: whole pages from its first byte on.
void outer_array(void *memory, size_t bytes) __attribute__((weak));

// The next iteration begins; the last one ended; a phase of it ended.
void outer_begin(void) __attribute__((weak));
void outer_end(void) __attribute__((weak));
void outer_phase(void) __attribute__((weak));

// How often each phase of an iteration runs, one time after the other: the kernel's results are then
// not those that it verifies.
int outer_repeats(void) __attribute__((weak));

// Whether what loops touch is asked for now. The calling thread touches, or will touch in this
// iteration, `count` pieces of `bytes`, each `stride` bytes after the one before.
bool outer_asks(void) __attribute__((weak));
void outer_touch(const void *memory, size_t stride, size_t bytes, size_t count)
    __attribute__((weak));

#define OUTER_ARRAY(memory, bytes) (outer_array ? outer_array(memory, bytes) : (void)0)
#define OUTER_BEGIN() (outer_begin ? outer_begin() : (void)0)
#define OUTER_END() (outer_end ? outer_end() : (void)0)
#define OUTER_PHASE() (outer_phase ? outer_phase() : (void)0)
#define OUTER_REPEATS() (outer_repeats ? outer_repeats() : 1)
#define OUTER_ASKS() (outer_asks ? outer_asks() : false)
#define OUTER_TOUCH(memory, stride, bytes, count)                                                  \
    (outer_touch ? outer_touch(memory, stride, bytes, count) : (void)0)

#endif
