// What a function's run depends on besides its inputs, so that it can be run again alike.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"

namespace muster::parallel {

/// Buffers whose memory is another one while it lives, with the same numbers in it. A batch norm's
/// kernel writes its running statistics without a word to autograd, so that they cannot be told
/// from what is only read.
class ScratchBuffers {
 public:
  explicit ScratchBuffers(const std::vector<at::Tensor>& buffers);
  ~ScratchBuffers();
  ScratchBuffers(const ScratchBuffers&) = delete;
  ScratchBuffers& operator=(const ScratchBuffers&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> owned_;
};

/// Random numbers, autocast, dispatch, streams and batch norms over ranks of the calling thread as
/// they are now.
class RunState {
 public:
  /// `generators`: those that the function draws from; none said: the default ones of the CPU and
  /// of the inputs' devices.
  RunState(const std::vector<at::Tensor>& inputs,
           const std::optional<std::vector<at::Generator>>& generators);

  /// Calls `function` in the state, gradients on, in this thread. Generators and everything else
  /// are afterwards as before, and so are `buffers`: what it writes to them goes to copies.
  template <class Function>
  void run_in(const std::vector<at::Tensor>& buffers, Function&& function) const {
    const Restored restored(*this, buffers);
    function();
  }

 private:
  struct Draws {
    at::Generator generator;
    at::Tensor state;
  };
  struct Autocast {
    c10::DeviceType type;
    bool enabled;
    c10::ScalarType dtype;
  };
  /// While it lives, the thread is in the state.
  class Restored {
   public:
    Restored(const RunState& state, const std::vector<at::Tensor>& buffers);
    ~Restored();
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

   private:
    struct Guards;
    std::unique_ptr<Guards> guards_;
  };

  static std::vector<Draws> drawn(const std::vector<at::Generator>& generators);
  static std::vector<Autocast> autocasts(const std::vector<c10::Stream>& streams);

  std::vector<c10::Stream> streams_;
  std::optional<c10::Device> device_;  ///< the current one, where inputs are on an accelerator
  std::vector<Draws> draws_;
  std::vector<Autocast> autocasts_;
  bool autocast_cache_;
  c10::impl::LocalDispatchKeySet dispatch_keys_;
  BatchNormsOverRanks::Holding norms_;
};

}  // namespace muster::parallel
