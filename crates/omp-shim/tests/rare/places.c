/* What the library makes of OMP_PLACES: one line. */
#include <omp.h>
#include <stdio.h>

int main(void) {
  int count = omp_get_num_places();
  printf("places %d bind %d at %d partition %d:", count, omp_get_proc_bind(), omp_get_place_num(),
         omp_get_partition_num_places());
  for (int place = -1; place <= count; place++) {
    int procs = omp_get_place_num_procs(place), ids[64] = {0};
    printf(" %d", procs);
    if (procs > 0 && procs <= 64) {
      omp_get_place_proc_ids(place, ids);
      for (int i = 0; i < procs; i++) printf("%c%d", i ? ',' : '=', ids[i]);
    }
  }
  int members[4] = {0};
#pragma omp parallel num_threads(4) proc_bind(spread)
  members[omp_get_thread_num()] = omp_get_place_num();
  printf(" spread %d %d %d %d", members[0], members[1], members[2], members[3]);
#pragma omp parallel num_threads(4) proc_bind(close)
  members[omp_get_thread_num()] = omp_get_place_num() * 10 + omp_get_partition_num_places();
  printf(" close %d %d %d %d", members[0], members[1], members[2], members[3]);
#pragma omp parallel num_threads(4) proc_bind(primary)
  members[omp_get_thread_num()] = omp_get_place_num() + 100 * omp_get_proc_bind();
  printf(" primary %d %d %d %d\n", members[0], members[1], members[2], members[3]);
  return 0;
}
