// The wall clock that times the kernels.
#ifndef KERNELS_CLOCK_H
#define KERNELS_CLOCK_H

// Seconds since a fixed moment of the past; never goes backwards.
double clock_seconds(void);

#endif
