/* Allocators, leagues of teams, target regions on the host, queries of later versions. */
#include "check.h"
#include <omp.h>
#include <stdint.h>
#include <string.h>

int main(void) {
  omp_alloctrait_t traits[] = {{omp_atk_alignment, 128}, {omp_atk_pool_size, 1024}, {omp_atk_fallback, omp_atv_null_fb}};
  omp_allocator_handle_t allocator = omp_init_allocator(omp_default_mem_space, 3, traits);
  CHECK(allocator != omp_null_allocator);
  char *block = omp_alloc(600, allocator);
  CHECK(block && (uintptr_t)block % 128 == 0);
  CHECK(!omp_alloc(600, allocator));
  omp_free(block, allocator);
  int shared = 3;
#pragma omp parallel num_threads(3) firstprivate(shared) allocate(allocator : shared)
  {
    CHECK_EQUAL(shared, 3);
    shared += omp_get_thread_num();
  }
  omp_destroy_allocator(allocator);

  int visits = 0;
#pragma omp teams num_teams(3) thread_limit(2) reduction(+ : visits)
  {
    CHECK_EQUAL(omp_get_num_teams(), 3);
#pragma omp parallel num_threads(4) reduction(+ : visits)
    {
      CHECK(omp_get_num_threads() <= 2);
      visits += 1;
    }
  }
  CHECK(visits >= 3 && visits <= 6);

  int on_host = 0, copy = 5;
#pragma omp target map(tofrom : on_host) firstprivate(copy)
  {
    copy++;
    on_host = omp_is_initial_device() + copy;
  }
  CHECK_EQUAL(on_host, 7);
  CHECK_EQUAL(copy, 5);
  CHECK_EQUAL(omp_get_num_devices(), 0);

  char text[64];
  size_t length = omp_capture_affinity(text, sizeof text, "%n of %N at %L");
  CHECK_EQUAL(length, strlen("0 of 1 at 0"));
  CHECK(strcmp(text, "0 of 1 at 0") == 0);
  CHECK(omp_get_wtime() > 0 && omp_get_wtick() > 0);
  puts("ok");
  return 0;
}
