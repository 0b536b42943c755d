// What a tool that is linked to a kernel learns of it: the arrays that its loops share, and the
// borders of its outer loop and of the phases in it. Without a tool all of this is nothing.
#ifndef KERNELS_OUTER_H
#define KERNELS_OUTER_H

#include <stddef.h>

// An array, not touched yet: whole pages from its first byte on.
void outer_array(void *memory, size_t bytes) __attribute__((weak));

// The next iteration begins; the last one ended; a phase of it ended.
void outer_begin(void) __attribute__((weak));
void outer_end(void) __attribute__((weak));
void outer_phase(void) __attribute__((weak));

#define OUTER_ARRAY(memory, bytes) (outer_array ? outer_array(memory, bytes) : (void)0)
#define OUTER_BEGIN() (outer_begin ? outer_begin() : (void)0)
#define OUTER_END() (outer_end ? outer_end() : (void)0)
#define OUTER_PHASE() (outer_phase ? outer_phase() : (void)0)

#endif
