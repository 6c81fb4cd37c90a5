// How much memory a training step will take at its peak, before it is run: its tensors are made on the
// meta device, where they have shapes and no elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/error.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/estimate/move_to_meta.h"

namespace torch::nn {
class Module;
}

namespace muster::memory {

// Note [Estimate on meta]
// The step runs twice on the meta device: forward, loss, backward and the optimizer's update are the
// program's own, operator by operator, and storages are born and die as they would on a device (Note
// [Meta memory]). What is live at once, at most, is the estimate; nothing is computed and no elements are
// held, so it takes milliseconds whatever the batch. In the second step the optimizer has its state.
//
// For the CPU the scratch of convolutions and recurrent layers is counted as well (Note [Scratch of
// convolutions], Note [Workspace of an LSTM layer]); other kernels take little besides their results.
// What kernels of other devices take is not seen, nor what lies outside of tensors: the CUDA context,
// libraries, the communication between ranks. docs/benchmarks.md, suite G, has estimates and
// measurements model by model.

/// A training step whose tensors are on the meta device.
struct MetaStep {
  /// What is trained, with all of its tensors on meta: move_to_meta(). Not null.
  std::shared_ptr<torch::nn::Module> module;
  /// Forward, loss, backward, the optimizer's step, and zero_grad() where the program calls it.
  std::function<void()> run;
  /// The optimizer's state, asked for behind each step. Empty: none is told apart.
  std::function<std::vector<at::Tensor>()> optimizer_state = {};
  /// Of the batch, on meta // of any shape
  std::vector<at::Tensor> inputs = {};
};

/// Bytes, but where it says otherwise.
struct PeakEstimate {
  /// The most that is live at once, as it was asked for: what `cpu_counters().peak` would be.
  int64_t peak = 0;
  /// peak by owner; sums to it. See Note [Owners]: gradients are those of parameters and of
  /// activations, and what backward needs besides.
  OwnerBytes at_peak{};
  /// The same peak where each tensor is rounded up to 512 bytes, as on CUDA and on fake devices.
  int64_t device_peak = 0;
  /// What the caching allocator of a CUDA device would have taken from it by then. See Note [Pool of
  /// a device].
  int64_t device_reserved = 0;
  int64_t storages = 0;  ///< how many were made
  /// Operators that ran and whose workspace is not in it, by name: "aten::convolution". Empty with
  /// EstimateOptions::cpu_scratch.
  std::vector<std::string> unseen_workspaces;
  bool is_for_cpu = true;  ///< EstimateOptions::cpu_scratch

  int64_t of(Owner owner) const { return at_peak[static_cast<size_t>(owner)]; }
  /// How far from `peak` the measured one may lie on the CPU, as a share of it: kEstimateError, and of
  /// small steps kEstimateBytes.
  double error() const;
};

/// What suite G holds to. Its worst were 7.6 % of 6.7 MiB, an LSTM, and 0.2 MiB of 0.8; its median is
/// 0.01 %. Of other devices nothing was measured but fake ones.
inline constexpr double kEstimateError = 0.10;
inline constexpr int64_t kEstimateBytes = int64_t{256} << 10;

/// What does not run without elements: a usage error.
class NotOnMeta : public Error {
 public:
  NotOnMeta(std::string op, ErrorText text)
      : Error(ErrorKind::kUsage, std::move(text)), op_(std::move(op)) {}
  const std::string& op() const { return op_; }  ///< "aten::nonzero"

 private:
  std::string op_;
};

struct EstimateOptions {
  int steps = 2;  ///< at least 1
  /// The scratch of the CPU's convolutions counts, as Note [Scratch of convolutions] says. False for
  /// devices with kernels of their own, whose workspaces are not known here.
  bool cpu_scratch = true;
};

/// `make` builds the program on the meta device: what it makes there is counted from its first tensor
/// on. The step runs in the calling thread; one estimate at a time in a thread, any number of threads.
/// Throws what `make` and the step throw, but instead of LibTorch's errors NotOnMeta with the operator that does not run without elements (`item()`, `nonzero()`, shapes that depend on numbers,
/// an operator of one's own without a kernel for meta); and a usage error for fewer than one step, a null
/// module, or a module that is not on meta.
PeakEstimate estimate_peak(const std::function<MetaStep()>& make,
                           const EstimateOptions& options = {});

/// "about 812 MiB (parameters 44.6, gradients 44.6, optimizer 44.6, activations 678), estimated on
/// meta; within 10 %"; for other devices than the CPU the last words say what is not counted.
std::string text_of(const PeakEstimate& estimate);

}  // namespace muster::memory
