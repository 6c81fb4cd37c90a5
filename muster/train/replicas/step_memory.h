// The memory of a pipeline's rank: the most that its steps hold, and what a failed one has dropped.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "muster/memory/report/explain.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train::detail {

/// The most bytes of this rank's device in its training steps, the optimizer's part among them. The
/// allocator's peak is reset once, before the first step. What an evaluation takes does not count:
/// steps behind it do where they take more. Used by the rank's own thread.
class StepMemory {
 public:
  /// Nothing is counted on the CPU, nor on a device that several ranks of this process share.
  StepMemory(c10::Device device, const FitPlan& plan);

  void begin_step();
  /// What comes before the next step is none.
  void end_steps();
  /// Probes reset the peak themselves.
  void stop() { counts_ = false; }
  /// Until now; 0: not known.
  double most();

 private:
  int64_t peak();
  void look();

  c10::Device device_;
  bool counts_;
  bool has_begun_ = false, in_steps_ = false;
  int64_t beside_ = 0;  // the peak when it was last raised by what is no step
  int64_t most_ = 0;
};

/// Where the module's gradients lie on this rank.
std::vector<memory::OwnedMemory> gradient_memory(const torch::nn::Module& module);

}  // namespace muster::train::detail
