/* All threads of the process take turns from now on. Call it before the first region; needs _GNU_SOURCE. */
#include "check.h"
#include <sched.h>

static inline void keep_to_one_processor(void) {
  cpu_set_t mask, here;
  CHECK_EQUAL(sched_getaffinity(0, sizeof mask, &mask), 0);
  CPU_ZERO(&here);
  for (int cpu = 0; CPU_COUNT(&here) == 0; cpu++)
    if (CPU_ISSET(cpu, &mask)) CPU_SET(cpu, &here);
  CHECK_EQUAL(sched_setaffinity(0, sizeof here, &here), 0);
}
