/* Little of what a program of threads has. Built with a sanitizer, whose run-time library has to see the threads that are made, and
   not to report what the OpenMP library does with memory of its own: each member in turn makes it use some, and what one member had
   is given back by another. What the program itself does is atomic: a sanitizer knows nothing of the joins of an OpenMP library,
   neither of ours nor of another. */
#include <omp.h>
#include <stdio.h>
#define SEEN(number) __atomic_fetch_add(&seen, number, __ATOMIC_ACQ_REL)
int main(void) {
  static int seen, turn;
#pragma omp parallel num_threads(4)
  SEEN(1);
  for (int count = 0; count < 8; count++) {
#pragma omp parallel num_threads(4)
    if (omp_get_thread_num() == __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) {
      char text[200];
      omp_capture_affinity(text, sizeof text, "%H %A %{nesting_level} %{thread_num} %{native_thread_id} %{host}");
      for (int number = 0; number < 50; number++) {
#pragma omp task
        SEEN(1);
      }
    }
    __atomic_store_n(&turn, (count + 1) % 4, __ATOMIC_RELEASE);
  }
  if (omp_pause_resource_all(omp_pause_soft) != 0) return 1;
#pragma omp parallel for schedule(dynamic) num_threads(4)
  for (int number = 0; number < 100; number++) SEEN(1);
  puts(__atomic_load_n(&seen, __ATOMIC_ACQUIRE) == 504 ? "ok" : "wrong");
  return 0;
}
