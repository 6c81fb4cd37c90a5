#include "muster/tensor/vector_math.h"

#include <barrier>
#include <ctime>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::tensor {
namespace {

struct Function {
  const char* name;
  torch::Tensor (*call)(const torch::Tensor&);
};

const Function kFunctions[] = {{"acos", &torch::acos},
                               {"asin", &torch::asin},
                               {"atan", &torch::atan},
                               {"cos", &torch::cos},
                               {"erf", &torch::erf},
                               {"erfc", &torch::erfc},
                               {"erfinv", &torch::erfinv},
                               {"exp", &torch::exp},
                               {"log", &torch::log},
                               {"log10", &torch::log10},
                               {"log2", &torch::log2},
                               {"sin", &torch::sin},
                               {"sqrt", &torch::sqrt},
                               {"tan", &torch::tan},
                               {"tanh", &torch::tanh}};

// One chance per process, so that the error this guards against (see Note [First call of a vector
// function]) would show in few runs; what it shows in every run is that nothing else is wrong.
TEST(VectorMath, ThreadsThatComputeForTheFirstTimeAtOnceAreExact) {
  initialize_vector_math();
  constexpr int kThreads = 8;
  const torch::Tensor x = torch::linspace(0.05, 0.95, 96, torch::kFloat);
  std::barrier start(kThreads);
  std::vector<std::vector<torch::Tensor>> results(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (const Function& function : kFunctions) {
        start.arrive_and_wait();
        results[i].push_back(function.call(x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < std::size(kFunctions); ++k) {
    const torch::Tensor exact = kFunctions[k].call(x.to(torch::kDouble));
    for (int i = 0; i < kThreads; ++i) {
      EXPECT_TRUE(torch::allclose(results[i][k].to(torch::kDouble), exact, 1e-6, 1e-7))
          << kFunctions[k].name << ", thread " << i;
      EXPECT_TRUE(torch::equal(results[i][k], results[0][k])) << kFunctions[k].name;
    }
  }
}

/// Processor time of this thread.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(VectorMath, SettlingTwiceIsNothing) {
  initialize_vector_math();
  const double before = thread_seconds();
  for (int i = 0; i < 1000; ++i) initialize_vector_math();
  EXPECT_LT(thread_seconds() - before, 0.1);
}

}  // namespace
}  // namespace muster::tensor
