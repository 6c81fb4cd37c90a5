// What the watch costs each operation: a backend that does nothing, alone and watched, in turns.
//
//     build/bin/watch_overhead [ROUNDS]
//
// Prints the median over rounds of nanoseconds per allreduce and wait; 1 round is 20,000 of each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/parallel/watch.h"

namespace {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class DoneWork : public c10d::Work {
 public:
  DoneWork() : c10d::Work(0, c10d::OpType::ALLREDUCE) { finish(); }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class IdleBackend : public c10d::Backend {
 public:
  IdleBackend() : c10d::Backend(0, 2) {}
  const std::string getBackendName() const override { return "idle"; }
  WorkPtr allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<DoneWork>();
  }
};

double ns_per_operation(c10d::Backend& backend, std::vector<at::Tensor>& tensors) {
  constexpr int kOperations = 20'000;
  const c10d::AllreduceOptions options;
  const auto start = Clock::now();
  for (int i = 0; i < kOperations; ++i) backend.allreduce(tensors, options)->wait();
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  return took.count() / kOperations;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const auto plain = c10::make_intrusive<IdleBackend>();
  const auto watched = muster::parallel::watched(c10::make_intrusive<IdleBackend>(),
                                                 {.store = c10::make_intrusive<c10d::HashStore>(),
                                                  .world_size = 2,
                                                  .timeout = std::chrono::minutes(30)},
                                                 {});
  std::vector<at::Tensor> tensors{at::ones({1000})};
  std::vector<double> without, with;
  for (int round = 0; round < rounds; ++round) {
    without.push_back(ns_per_operation(*plain, tensors));
    with.push_back(ns_per_operation(*watched, tensors));
  }
  std::printf("plain %.0f ns, watched %.0f ns, the watch %.0f ns per operation\n",
              median(without),
              median(with),
              median(with) - median(without));
}
