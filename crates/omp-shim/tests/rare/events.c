/* Detached tasks: events fulfilled by threads of the program, before, while and after the body runs; with dependences. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

enum { COUNT = 64 };
static omp_event_handle_t events[COUNT];
static int ready[COUNT], order, after[COUNT];

static void *fulfill(void *unused) {
  (void)unused;
  for (int i = 0; i < COUNT; i++) {
    while (!__atomic_load_n(&ready[i], __ATOMIC_ACQUIRE)) {
    }
    __atomic_fetch_add(&order, 1, __ATOMIC_SEQ_CST);
    omp_fulfill_event(events[i]);
  }
  return NULL;
}

int main(void) {
  for (int threads = 1; threads <= 3; threads++) {
    pthread_t thread;
    int chain[1] = {0}, bodies = 0, wrong = 0, group = 0;
    order = chain[0];
    for (int i = 0; i < COUNT; i++) ready[i] = after[i] = 0;
    pthread_create(&thread, NULL, fulfill, NULL);
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
      for (int i = 0; i < COUNT; i++) {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : chain[0]) shared(bodies) firstprivate(i)
        {
#pragma omp atomic
          bodies++;
          events[i] = event;
          __atomic_store_n(&ready[i], 1, __ATOMIC_RELEASE);
        }
#pragma omp task depend(inout : chain[0]) shared(wrong) firstprivate(i)
        {
          after[i] = 1;
          if (__atomic_load_n(&order, __ATOMIC_SEQ_CST) < i + 1)
#pragma omp atomic
            wrong++;
        }
      }
#pragma omp taskwait
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < COUNT; i++) wrong += !after[i];
    /* Fulfilled by the body itself, and before the body begins. */
#pragma omp parallel num_threads(threads)
#pragma omp single
#pragma omp taskgroup
    for (int i = 0; i < 30; i++) {
      omp_event_handle_t event;
#pragma omp task detach(event) shared(group)
      {
#pragma omp atomic
        group++;
        omp_fulfill_event(event);
      }
#pragma omp task detach(event) shared(group) if (i % 2)
      {
        omp_event_handle_t copy = event;
#pragma omp task shared(group) firstprivate(copy)
        {
#pragma omp atomic
          group++;
          omp_fulfill_event(copy);
        }
#pragma omp taskwait
      }
    }
    printf("%d %d %d %d\n", bodies, order, wrong, group);
  }
  return 0;
}
