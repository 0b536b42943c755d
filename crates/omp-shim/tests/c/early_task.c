/* A body that had no task for some regions makes one at the very start of a part, in a large team: the members that are called back for it
 * have parts of their own, which may not have reached them yet. Each body is a function of its own, since one that had a task is
 * never again taken for one without. */
#include <omp.h>

#include "check.h"

enum { THREADS = 40, ROUNDS = 6 };

static int done, parts;

#define BODY(name)                                                                                                     \
  static void name(int has_task) {                                                                                     \
    _Pragma("omp parallel num_threads(THREADS)") {                                                                     \
      if (has_task && omp_get_thread_num() == 1) {                                                                     \
        _Pragma("omp task") {                                                                                          \
          _Pragma("omp atomic") done++;                                                                                \
        }                                                                                                              \
      }                                                                                                                \
      _Pragma("omp atomic") parts++;                                                                                   \
    }                                                                                                                  \
  }
#define FOUR(name) BODY(name##0) BODY(name##1) BODY(name##2) BODY(name##3)
#define SIXTEEN(name) FOUR(name##0) FOUR(name##1) FOUR(name##2) FOUR(name##3)
#define NAMES_OF_FOUR(name) name##0, name##1, name##2, name##3
#define NAMES(name) NAMES_OF_FOUR(name##0), NAMES_OF_FOUR(name##1), NAMES_OF_FOUR(name##2), NAMES_OF_FOUR(name##3)

SIXTEEN(a)
SIXTEEN(b)
SIXTEEN(c)
SIXTEEN(d)

static void (*const bodies[])(int) = {NAMES(a), NAMES(b), NAMES(c), NAMES(d)};

int main(void) {
  int count = sizeof bodies / sizeof *bodies;
  for (int body = 0; body < count; body++)
    for (int round = 0; round < ROUNDS; round++)
      bodies[body](round == ROUNDS - 1);
  CHECK(done == count);
  CHECK(parts == count * ROUNDS * THREADS);
  puts("ok");
  return 0;
}
