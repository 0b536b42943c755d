/* Arenas of oneTBB under changing grants: one in another, several threads at once, tasks that no
 * thread waits for, and a limit of the program's own. Run by `cargo xtask flip tbb`, as
 * `nested_arenas SECONDS`.
 */
#include <tbb/tbb.h>
#include <tbb/global_control.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
using range = tbb::blocked_range<long>;

static long sum(long end) {
  auto part = [](const range &part, long sum) {
    for (long i = part.begin(); i < part.end(); i++) sum += i;
    return sum;
  };
  return tbb::parallel_reduce(range(0, end, 500), 0L, part, std::plus<long>());
}

static void must(bool is_so, const char *what) {
  if (is_so) return;
  std::printf("%s\n", what);
  std::exit(1);
}

int main(int, char **arguments) {
  using clock = std::chrono::steady_clock;
  auto end = clock::now() + std::chrono::duration<double>(std::atof(arguments[1]));
  const long n = 100000, right = n * (n - 1) / 2;
  while (clock::now() < end) {
    must(sum(n) == right, "alone");
    tbb::task_arena outer(2), inner(2);
    std::atomic<long> all{0};
    auto inside = [&](int) { all += inner.execute([&] { return sum(n); }); };
    outer.execute([&] { tbb::parallel_for(0, 4, inside); });
    must(all == 4 * right, "an arena in another");
    std::vector<std::thread> threads;
    all = 0;
    auto alone = [&] {
      tbb::task_arena own(2);
      all += own.execute([&] { return sum(n); });
    };
    for (int i = 0; i < 4; i++) threads.emplace_back(alone);
    for (auto &thread : threads) thread.join();
    must(all == 4 * right, "several threads");
    std::atomic<int> ran{0};
    tbb::task_arena apart(1, 0);
    for (int i = 0; i < 10; i++) apart.enqueue([&] { ran++; });
    while (ran < 10) std::this_thread::yield();
    tbb::task_group group;
    for (int i = 0; i < 20; i++) group.run([&] { ran++; });
    group.wait();
    must(ran == 30, "tasks");
    auto most = tbb::global_control::max_allowed_parallelism;
    tbb::global_control one(most, 1);
    must(tbb::global_control::active_value(most) == 1, "the program's own limit");
    must(sum(n) == right, "one thread");
  }
  std::puts("ok");
}
