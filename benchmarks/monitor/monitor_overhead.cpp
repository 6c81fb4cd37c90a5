// What the monitor costs each operation: backends that do nothing, alone and watched, in turns. One
// has works like those of Muster's own backends, which note their end themselves.
//
//     build/bin/monitor_overhead [ROUNDS]
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

#include "muster/distributed/call/pending_work.h"
#include "muster/distributed/monitor/monitor.h"

namespace md = muster::distributed;

namespace {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class DoneWork : public c10d::Work {
 public:
  DoneWork() : c10d::Work(0, c10d::OpType::ALLREDUCE) { finish(); }
  bool wait(std::chrono::milliseconds) override { return true; }
};

/// Completes a work when it is waited for.
class Finisher : public md::WorkHelper {
 public:
  void help(md::PendingWork& work, std::optional<Clock::time_point>) override { work.complete(); }
  std::string missing() override { return ""; }
};

class IdleBackend : public c10d::Backend {
 public:
  explicit IdleBackend(bool ours) : c10d::Backend(0, 2), ours_(ours) {}
  const std::string getBackendName() const override { return "idle"; }
  WorkPtr allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions&) override {
    if (!ours_) return c10::make_intrusive<DoneWork>();
    return c10::make_intrusive<md::PendingWork>(0, c10d::OpType::ALLREDUCE, 0, tensors, finisher_);
  }

 private:
  const bool ours_;
  const std::shared_ptr<Finisher> finisher_ = std::make_shared<Finisher>();
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

void compare(const char* works, bool ours, int rounds) {
  const auto plain = c10::make_intrusive<IdleBackend>(ours);
  const auto watched = md::monitored(c10::make_intrusive<IdleBackend>(ours),
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
  std::printf("%s: plain %.0f ns, watched %.0f ns, the watch %.0f ns per operation\n",
              works,
              median(without),
              median(with),
              median(with) - median(without));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  compare("another's works", false, rounds);
  compare("Muster's works", true, rounds);
}
