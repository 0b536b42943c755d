/* Automatic self-allocating threads: see src/abi/asat.rs, of which this file is made. */
#ifndef NANOS_ASAT_H
#define NANOS_ASAT_H

#ifdef __cplusplus
extern "C" {
#endif

/* How many threads, from 1 to most, the next parallel part of the program is to have. To be called
   before each such part, while the program's own threads have nothing to do. Mostly it returns at
   once; once in ASAT_EVAL_TIME (at least a second) it takes some milliseconds to find out what the
   machine can run now. The first call starts the threads that it needs for that. */
int asat_adjust_threads(int most);

/* The same for Fortran: integer function asat_adjust_threads(most), both of the default kind. */
int asat_adjust_threads_(const int *most);

#ifdef __cplusplus
}
#endif

#endif
