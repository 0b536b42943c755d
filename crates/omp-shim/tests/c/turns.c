/* Two threads on one processor take turns, in as few switches of the kernel as barriers allow: the first one runs to the
   barrier at which it has to wait for the other one, and the one that comes to that later passes it and runs on to the next. The
   region ends on the thread that began it, so there and back for each two barriers, and once more: the end counts as one. A barrier
   right before the end is none: nothing stands between the two. */
#define _GNU_SOURCE
#include "one_processor.h"
#include <omp.h>
#include <sys/resource.h>

#define ROUNDS 20
#define TRIALS 200

/* More bodies than one looks at in a row when one asks whether they had tasks; of the second kind the compiler makes the last
   barrier the tail of the body. */
#define BODY(name, last)                      \
  static void name(int barriers) {            \
    _Pragma("omp parallel num_threads(2)") {  \
      for (int k = 0; k < barriers; k++) {    \
        _Pragma("omp barrier")                \
      }                                       \
      last                                    \
    }                                         \
  }
#define BODIES_OF(kind, last)                                                                                    \
  BODY(kind##0, last) BODY(kind##1, last) BODY(kind##2, last) BODY(kind##3, last) BODY(kind##4, last)            \
  BODY(kind##5, last) BODY(kind##6, last) BODY(kind##7, last) BODY(kind##8, last)                                \
  static void (*const kind[])(int) = {kind##0, kind##1, kind##2, kind##3, kind##4, kind##5, kind##6, kind##7, kind##8};
BODIES_OF(plain, )
BODIES_OF(tailed, _Pragma("omp barrier"))
#define BODIES ((int)(sizeof plain / sizeof *plain))

static long switches(void) {
  struct rusage usage;
  CHECK_EQUAL(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Of so many regions with `barriers` each: in the best trial, for others may run here, too. One with no more than `most`
   is good enough: where they do, each takes long. */
static long fewest(void (*const bodies[])(int), int barriers, long most) {
  long fewest = -1;
  for (int trial = 0; trial < TRIALS && (fewest < 0 || fewest > most); trial++) {
    long before = switches();
    for (int round = 0; round < ROUNDS; round++)
      for (int at = 0; at < BODIES; at++) bodies[at](barriers);
    long found = switches() - before;
    if (fewest < 0 || found < fewest) fewest = found;
  }
  return fewest;
}

int main(void) {
  keep_to_one_processor();
  for (int kind = 0; kind < 2; kind++)
    for (int barriers = 0; barriers <= 4; barriers++) {
      int regions = ROUNDS * BODIES, each = 2 * (barriers / 2 + 1);
      /* A turn with another thread now and then. */
      long most = regions * each + regions / 10, found = fewest(kind == 0 ? plain : tailed, barriers, most);
      if (found > most) {
        fprintf(stderr, "%d regions with %d barriers%s: %ld switches, not %d\n", regions, barriers,
                kind == 0 ? "" : " and one before the end", found, regions * each);
        return 1;
      }
    }
  puts("ok");
  return 0;
}
