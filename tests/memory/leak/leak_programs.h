// Programs that leak, each with a fixed twin, and programs that only look as if they did.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/leak/leak_finder.h"

namespace muster::test {

/// What each of them trains: 64 -> 128 -> 16, batches of 256. Activations of 128 KiB.
struct SmallNet : torch::nn::Module {
  SmallNet();
  at::Tensor forward(const at::Tensor& x);
  torch::nn::Linear first{nullptr}, second{nullptr};
};

/// A run of one program. What it keeps lies in the step.
struct LeakWorld {
  LeakWorld();
  std::shared_ptr<SmallNet> net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  at::Tensor batch, target;

  at::Tensor loss_of(const at::Tensor& out) const;
  /// Forward in scope "model", loss in scope "loss", backward, step. The forward's result.
  at::Tensor train();
};

using LeakStep = std::function<void(int iteration)>;

struct LeakProgram {
  std::string name;  ///< number of the suite and what it does wrong
  memory::LeakKind kind;
  std::string scope;  ///< in which what leaks is made
  std::function<LeakStep(LeakWorld&, bool leaks)> make;
};

/// Something that must stay silent.
struct ControlProgram {
  std::string name;
  std::function<LeakStep(LeakWorld&)> make;
};

std::vector<LeakProgram> graph_leak_programs();
std::vector<LeakProgram> other_leak_programs();
std::vector<LeakProgram> outside_leak_programs();
std::vector<LeakProgram> device_leak_programs();
std::vector<ControlProgram> control_programs();
std::vector<ControlProgram> outside_control_programs();
std::vector<ControlProgram> device_control_programs();

/// What a run told.
struct LeakRun {
  int first_iteration = 0;   ///< of the first report with a finding; 0: none
  memory::LeakReport first;  ///< that report
  memory::LeakReport last;
  // What a user has without us, at the end of each iteration:
  std::vector<int64_t> end_bytes;              ///< of CPU tensors
  std::vector<int64_t> device_bytes;           ///< of the device's tensors; empty: there is none
  std::vector<int64_t> resident;               ///< of the process
  std::vector<memory::LiveBlock> early, late;  ///< snapshots behind kEarly and kLate
  static constexpr int kEarly = 5, kLate = 25;
};

/// So many iterations under a Tracker and a LeakFinder.
LeakRun run_under_leak_finder(const std::function<LeakStep(LeakWorld&)>& make,
                              int iterations = 40,
                              const memory::LeakOptions& options = {});

}  // namespace muster::test
