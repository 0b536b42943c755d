/* Target constructs and device routines where there is no device. */
#include <omp.h>
#include <stdio.h>

struct Pair {
  int n;
  int *q;
};

int main(void) {
  int host = omp_get_initial_device();
  double a[4][5], b[4][5];
  for (int i = 0; i < 20; i++) (&a[0][0])[i] = i, (&b[0][0])[i] = -1;
  size_t volume[] = {2, 3}, to[] = {1, 1}, from[] = {0, 2}, sizes[] = {4, 5};
  printf("%d\n", omp_target_memcpy_rect(b, a, sizeof(double), 2, volume, to, from, sizes, sizes, host, host));
  for (int i = 0; i < 20; i++) printf("%g ", (&b[0][0])[i]);
  printf("\n%d\n", omp_target_memcpy(b, a, 8, 0, 0, host, 77) != 0);
  printf("%d %d\n", omp_target_associate_ptr(a, b, 8, 0, host) != 0, omp_target_disassociate_ptr(a, host) != 0);
  printf("%d %d\n", omp_get_default_device(), omp_get_device_num());
  omp_set_default_device(5);
  printf("%d\n", omp_get_default_device());
  omp_set_default_device(0);
  int x = 1, y = 2, *p = &x;
  struct Pair s = {3, &y};
#pragma omp target data map(to : x) use_device_ptr(p)
  printf("%d\n", *p);
#pragma omp target map(tofrom : s, y) is_device_ptr(p) device(omp_get_initial_device())
  {
    s.n += *p;
    *s.q += 5;
    y++;
  }
  printf("%d %d\n", s.n, y);
#pragma omp target enter data map(to : a) depend(out : a)
#pragma omp target teams distribute parallel for simd map(tofrom : a) collapse(2) depend(inout : a) nowait thread_limit(3)
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 5; j++) a[i][j] *= 2;
#pragma omp target exit data map(from : a) depend(in : a)
#pragma omp taskwait
  printf("%g\n", a[3][4]);
  int sum = 0;
#pragma omp target parallel num_threads(3) map(tofrom : sum)
#pragma omp atomic
  sum++;
  printf("%d\n", sum);
#pragma omp target parallel for map(tofrom : sum) reduction(+ : sum) if (target : 0)
  for (int i = 0; i < 10; i++) sum += i;
#pragma omp target simd map(tofrom : sum) reduction(+ : sum)
  for (int i = 0; i < 10; i++) sum += i;
  printf("%d\n", sum);
  /* Each waits for an event that this thread has still to fulfill. */
  omp_event_handle_t event;
  int first = 0, own = 10, more[40] = {[39] = 7};
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task detach(event) depend(out : first) shared(first)
    first = 1;
#pragma omp target nowait depend(inout : first) map(tofrom : first) firstprivate(own, more)
    {
      first += own + more[39];
      own = 0;
    }
#pragma omp target enter data map(to : first) depend(inout : first) nowait
#pragma omp target update to(first) depend(inout : first) nowait
#pragma omp target exit data map(from : first) depend(inout : first) nowait
#pragma omp task depend(in : first) shared(first)
    printf("%d\n", first);
    own = more[39] = 1000;
    omp_fulfill_event(event);
#pragma omp taskwait
  }
  printf("%d %d\n", first, own);
#pragma omp target nowait map(tofrom : first) depend(out : first)
  first = 5;
#pragma omp taskwait
  printf("%d\n", first);
  return 0;
}
