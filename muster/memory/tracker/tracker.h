// Whose the bytes are, iteration by iteration: by owner and by layer, at the end and at the peak.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace muster::memory {

/// What a module's layer made and holds.
struct LayerBytes {
  std::string layer;  ///< "encoder.layers.0.linear1"
  int64_t at_end = 0;
  int64_t at_peak = 0;
};

/// One iteration. Bytes of CPU tensors, unless it says otherwise.
struct IterationMemory {
  uint32_t iteration = 0;   ///< 1 is the first
  int64_t end_bytes = 0;    ///< live when it ended
  int64_t peak_bytes = 0;   ///< the most that was live within it
  int64_t allocations = 0;  ///< within it
  /// Sums to end_bytes, to the byte. See Note [Owners].
  OwnerBytes at_end{};
  /// Sums to peak_bytes; each owner is exact if one thread allocates. Zeros below Level::kTags, as
  /// the one before.
  OwnerBytes at_peak{};
  /// Of Level::kLayers; most at the peak first.
  std::vector<LayerBytes> layers = {};
  /// other_heap_bytes() at the end; of Level::kCounters at the last end that was looked at (see
  /// TrackerOptions::looks_every).
  int64_t other_heap_bytes = 0;
  /// Addresses that the C library's heap had taken then; 0 where it does not tell.
  int64_t heap_from_system = 0;
  /// Of the device that the module's parameters are on, if not the CPU and counted.
  std::optional<Counters> device = std::nullopt;
  /// Of tensors of the module and the optimizer on that device, at the end.
  OwnerBytes device_at_end{};
};

struct TrackerOptions {
  Level level = Level::kTags;
  /// Of Level::kTags: LibTorch tells which operator of a forward runs, for 0.3 to 1 us each, in the
  /// first three iterations, in one of so many from then on, and from where allocations come that never
  /// came so. In the others names and owners are those of the same allocations then, and the module is
  /// asked for its parameters and buffers anew only where the number of allocations is another. 1: all
  /// in each. At least 1, or a usage error.
  uint32_t looks_every = 32;
  /// Tensors of an optimizer that is not torch::optim's, asked once per iteration:
  /// [&] { std::vector<at::Tensor> all; for (auto& [name, t] : optimizer->state()) …; return all; }
  std::function<std::vector<at::Tensor>()> optimizer_state = {};
};

// Note [Owners]
// At the end of each iteration the blocks of parameters, buffers, .grad and optimizer state are
// marked for good, so what the module holds is exact from the first end on. Blocks are born as
// activation (an operator that would build a graph made them, be it saved for backward or not), as
// gradient (a node of a backward made them: of parameters, of activations, and its workspaces) or
// as other. What was allocated before the recording is not the allocator's; bytes of parameters,
// buffers, gradients and state among it are added from their storages (with Level::kCounters, as
// they were when the tracker began).
//
// A layer's bytes are those of operators that took a parameter of its module, and of operators
// without parameters (relu, pooling) behind them in the same thread and scope, forward and backward.

/// Counts the iterations of a training loop. One thread ends iterations; any may allocate. Module
/// and optimizer outlive it. One at a time in a process, since the iteration's number is the
/// process's: a second one throws a usage error.
class Tracker {
 public:
  explicit Tracker(torch::nn::Module& module,
                   torch::optim::Optimizer* optimizer = nullptr,
                   TrackerOptions options = {});
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  /// Whose memory is the batch's.
  void input(const at::Tensor& tensor);

  /// Behind the optimizer's step.
  const IterationMemory& end_iteration();
  /// The last one that ended; zeros before.
  const IterationMemory& last() const { return last_; }
  uint32_t iteration() const { return iteration_; }  ///< the one that runs: 1 and so on
  /// What blocks of iteration 1 are marked with: numbers of a process go on from tracker to tracker.
  uint32_t first_mark() const { return first_mark_; }

  /// Called at each end, in its thread, with blocks still as they are. Empty: no longer.
  void at_end(std::function<void(const IterationMemory&)> listener) {
    listener_ = std::move(listener);
  }
  torch::nn::Module& module() const { return module_; }
  /// The module's, as they were when it was looked at last; see TrackerOptions::looks_every.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  /// Memory that the allocator has not seen.
  struct Unrecorded {
    const c10::StorageImpl* storage;
    c10::Device device;
    Owner owner;
    int64_t bytes;
  };

  void look_at_module();
  void claim();
  void claim_one(const at::Tensor& tensor, Owner owner);
  void sum_unrecorded();
  bool is_looked_at(uint32_t iteration) const;
  void name_operators();
  void map_layers();
  void fill_layers();

  /// The place of the one tracker; checks the options, too.
  struct OnlyOne {
    explicit OnlyOne(const TrackerOptions& options);
    ~OnlyOne();
    OnlyOne(const OnlyOne&) = delete;
    OnlyOne& operator=(const OnlyOne&) = delete;
  };

  torch::nn::Module& module_;
  torch::optim::Optimizer* optimizer_;
  TrackerOptions options_;
  OnlyOne only_one_;
  Recording recording_;
  uint32_t first_mark_ = 1;
  uint32_t iteration_ = 1;
  int64_t allocations_before_ = 0;
  std::vector<at::Tensor> parameters_, buffers_;
  std::vector<uint32_t> layers_;  // layer_id() of each parameter, of Level::kLayers
  std::vector<Unrecorded> unrecorded_storages_;
  OwnerBytes unrecorded_{};
  std::optional<c10::Device> device_;
  std::vector<const c10::StorageImpl*> mapped_;
  IterationMemory last_;
  std::function<void(const IterationMemory&)> listener_;
};

/// The numbers of an iteration, by name, for a metrics file: "memory/peak_bytes",
/// "memory/end_bytes", "memory/allocations", "memory/other_heap_bytes", from Level::kTags on
/// "memory/end/OWNER" and "memory/peak/OWNER" (parameter, buffer, gradient, optimizer_state,
/// activation, input, other), and with a device "memory/device_bytes" and
/// "memory/device_peak_bytes".
std::vector<std::pair<std::string, double>> metrics_of(const IterationMemory& iteration);

/// A table of owners, in MiB, and the layers that hold most; for a terminal.
std::string text_of(const IterationMemory& iteration, size_t layers = 10);

}  // namespace muster::memory
