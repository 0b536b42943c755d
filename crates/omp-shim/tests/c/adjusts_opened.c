/* A program that has an engine opens the library for programs without OpenMP later, as a plugin or
   an interpreter does: that one hands its calls to the engine that is there. */
#include "asat.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

int main(int count, char **names) {
  int direct = asat_adjust_threads(INT_MAX);
  void *library = count > 1 ? dlopen(names[1], RTLD_NOW | RTLD_LOCAL) : 0;
  if (!library) return 1;
  int (*c)(int) = (int (*)(int))dlsym(library, "asat_adjust_threads");
  int (*fortran)(const int *) = (int (*)(const int *))dlsym(library, "asat_adjust_threads_");
  if (!c || !fortran) return 2;
  int most = INT_MAX, by_c = c(most), by_fortran = fortran(&most);
  printf("%d %d %d\n", direct, by_c, by_fortran);
  /* There are not so many processors. */
  if (direct > 100000 || by_c > 100000 || by_fortran > 100000) return 3;
  puts("ok");
  return 0;
}
