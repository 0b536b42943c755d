/* Work for oneTBB, by its own calls (`arenas`) or, compiled with PAR, by the standard library's
 * std::execution::par: square roots of a vector, their sum, and a sort.
 *
 * For each line on standard input prints one line of JSON: seconds of the work, and its result.
 * Copies that are given their lines together start together. OMP_NUM_THREADS=1, which means nothing
 * to oneTBB, makes it a program of one thread.
 */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/parallel_sort.h>
#ifdef PAR
#include <execution>
#include <numeric>
#endif

static double work(const std::vector<double> &from, std::vector<double> &to) {
  double sum = 0;
  for (int round = 0; round < 20; round++) {
#ifdef PAR
    auto policy = std::execution::par;
    std::transform(policy, from.begin(), from.end(), to.begin(),
                   [](double x) { return std::sqrt(x) + std::sin(x); });
    sum += std::reduce(policy, to.begin(), to.end(), 0.0);
    std::sort(policy, to.begin(), to.begin() + 50000);
#else
    using range = tbb::blocked_range<size_t>;
    tbb::parallel_for(range(0, from.size()), [&](const range &part) {
      for (size_t i = part.begin(); i < part.end(); i++) to[i] = std::sqrt(from[i]) + std::sin(from[i]);
    });
    sum += tbb::parallel_reduce(
        range(0, to.size()), 0.0,
        [&](const range &part, double sum) {
          for (size_t i = part.begin(); i < part.end(); i++) sum += to[i];
          return sum;
        },
        std::plus<double>());
    tbb::parallel_sort(to.begin(), to.begin() + 50000);
#endif
    sum += to[777];
  }
  return sum;
}

int main() {
  const char *one = std::getenv("OMP_NUM_THREADS");
  bool is_one = one && std::strcmp(one, "1") == 0;
  size_t most = is_one ? 1 : tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  tbb::global_control control(tbb::global_control::max_allowed_parallelism, most);
  std::vector<double> from(400000), to(from.size());
  for (size_t i = 0; i < from.size(); i++) from[i] = double(i * 7919 % 100003);
  work(from, to);
  std::puts("ready");
  std::fflush(stdout);
  for (int read; (read = std::getchar()) != EOF;) {
    if (read != '\n') continue;
    auto begin = std::chrono::steady_clock::now();
    double sum = work(from, to);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("{\"seconds\": %.6f, \"result\": [%.17g]}\n", took.count(), sum);
    std::fflush(stdout);
  }
}
