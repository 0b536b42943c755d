// C++: exceptions inside critical regions and tasks, objects that are copied and destroyed, iterators, user reductions.
#include <cstdio>
#include <map>
#include <numeric>
#include <omp.h>
#include <stdexcept>
#include <string>
#include <vector>

static int made, gone;

struct Counted {
  int value;
  explicit Counted(int value = 0) : value(value) {
#pragma omp atomic
    made++;
  }
  Counted(const Counted &other) : value(other.value) {
#pragma omp atomic
    made++;
  }
  Counted &operator=(const Counted &) = default;
  ~Counted() {
    value = -1;
#pragma omp atomic
    gone++;
  }
};

#pragma omp declare reduction(merge : std::vector<int> : omp_out.insert(omp_out.end(), omp_in.begin(), omp_in.end()))
#pragma omp declare reduction(join : std::string : omp_out += omp_in) initializer(omp_priv = std::string())

int main() {
  int caught = 0, wrong = 0;
#pragma omp parallel num_threads(4) reduction(+ : caught, wrong)
  for (int i = 0; i < 100; i++) {
    try {
      // gcc ends the process when an exception leaves the region: it is caught inside.
#pragma omp critical(one)
      {
        try {
          if (i % 3 == 0) throw std::runtime_error("inside");
        } catch (const std::runtime_error &error) {
          caught++;
          wrong += std::string(error.what()) != "inside";
        }
      }
#pragma omp task firstprivate(i) shared(wrong)
      try {
        if (i % 2) throw i;
      } catch (int thrown) {
        if (thrown != i) std::puts("wrong");
      }
    } catch (...) {
      wrong++;
    }
  }
  std::printf("%d %d\n", caught, wrong);

  Counted first(5), last(0), shared(9);
  int sum = 0;
#pragma omp parallel num_threads(3)
  {
#pragma omp for firstprivate(first) lastprivate(last) reduction(+ : sum) schedule(dynamic, 3)
    for (int i = 0; i < 50; i++) {
      last.value = i;
      sum += first.value;
    }
#pragma omp single
    {
      for (int i = 0; i < 20; i++) {
#pragma omp task firstprivate(shared) shared(sum)
        {
#pragma omp atomic
          sum += shared.value;
        }
      }
#pragma omp taskloop firstprivate(shared) lastprivate(last) grainsize(4)
      for (int i = 0; i < 40; i++) {
        last.value = i + shared.value;
#pragma omp atomic
        sum += shared.value;
      }
    }
  }
  std::printf("%d %d %d\n", sum, last.value, first.value);
  std::vector<int> input(1000), output;
  std::iota(input.begin(), input.end(), 1);
  std::string letters;
#pragma omp parallel for reduction(merge : output) reduction(join : letters) num_threads(3) schedule(static, 10)
  for (auto place = input.begin(); place < input.end(); place += 3) {
    output.push_back(*place);
    letters += 'x';
  }
  std::printf("%zu %d %zu\n", output.size(), std::accumulate(output.begin(), output.end(), 0), letters.size());
  std::map<int, int> squares;
#pragma omp parallel num_threads(2)
#pragma omp single nowait
  for (int number : {3, 1, 2}) {
#pragma omp task
    {
      Counted local(number);
#pragma omp critical
      squares[local.value] = local.value * local.value;
    }
  }
  for (auto [number, square] : squares) std::printf("%d:%d ", number, square);
  long total = 0;
#pragma omp parallel for num_threads(3) reduction(+ : total) collapse(2)
  for (auto one = input.begin(); one != input.end(); ++one)
    for (int j = 0; j < 3; j++) total += *one * j;
  std::printf("%ld\n", total);
  std::printf("%d\n", made - gone);
  return 0;
}
