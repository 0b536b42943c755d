/* The library that late.c loads. */
int sum_to(int n) {
  int sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
  for (int i = 1; i <= n; i++) sum += i;
  return sum;
}
