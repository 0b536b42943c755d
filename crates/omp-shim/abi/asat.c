/* libnanos_asat.so: asat_adjust_threads for programs without OpenMP. It has no engine of its own: it
   hands the call to the one that is in the process already, else to the library that stands beside
   this file. Without either the program goes on as if it had not asked. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../include/asat.h"

typedef int adjust(int);

/* This library's own function. Its public name may be bound to another library's: to that of
   libgomp.so.1, where a program with that one opens this one later. */
static adjust own;
int asat_adjust_threads(int most) __attribute__((alias("own")));

static int as_asked(int most) { return most < 1 ? 1 : most; }

/* The function in a library, if that is another one than this. */
static adjust *in(void *library) {
  adjust *found = library ? (adjust *)dlsym(library, "asat_adjust_threads") : 0;
  return found == own ? 0 : found;
}

static adjust *beside(void) {
  Dl_info file;
  char path[4096];
  const char *name = "libgomp.so.1";
  if (!dladdr((void *)own, &file) || !file.dli_fname) return 0;
  const char *end = strrchr(file.dli_fname, '/');
  size_t length = end ? (size_t)(end - file.dli_fname) + 1 : 0;
  if (length + strlen(name) >= sizeof path) return 0;
  memcpy(path, file.dli_fname, length);
  strcpy(path + length, name);
  return in(dlopen(path, RTLD_NOW | RTLD_LOCAL));
}

static adjust *find(void) {
  adjust *found = in(dlopen(0, RTLD_NOW));
  if (!found) found = in(dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD));
  if (!found) found = beside();
  return found ? found : as_asked;
}

static int own(int most) {
  static _Atomic(adjust *) known;
  adjust *target = atomic_load_explicit(&known, memory_order_acquire);
  if (!target) {
    target = find();
    atomic_store_explicit(&known, target, memory_order_release);
  }
  return target(most);
}

int asat_adjust_threads_(const int *most) { return own(*most); }
