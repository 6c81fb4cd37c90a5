// Runs a function a second time, in backward, instead of keeping what its operations saved.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/DimVector.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "muster/parallel/activations/run_state.h"
#include "muster/tensor/saved_tensors.h"

namespace muster::parallel {

// Note [Recomputation]
// Inside checkpointed() operations save into a Recomputation: of each tensor it notes what it looks
// like, and gives autograd a ticket with a number. In backward the first ticket that is asked for
// runs the function again on the same inputs, in the same state (RunState), and takes what its
// operations save, in order: the nth is what ticket n stands for. Only the inputs are kept
// meanwhile, as autograd itself keeps tensors: what is changed in place is noticed, and where one
// checkpointed function calls another, the inner one's inputs are saved by the outer one, so they
// are made again too.
//
// The second run ends with the last tensor that is needed, by an exception of no public type, so
// what comes behind it costs nothing. Its graph is dropped; gradients flow through the first
// run's. So hooks of parameters fire once, and a backward of that backward finds its graph.
//
// What a run made is of one backward (a graph task): each tensor goes as it is asked for, the rest
// at its end. With retain_graph the next backward runs the function once more.

struct RecomputeOptions {
  /// What the function draws random numbers from: the second run draws the same again. Not said:
  /// the default generators of the CPU and of the inputs' devices. Ranks that are threads share
  /// those, so they say their own ones; an empty list where there are none.
  std::optional<std::vector<at::Generator>> generators = std::nullopt;
  /// Tensors that the function changes in place and that a second run must leave alone: running
  /// statistics. Those of a module that is called are known.
  std::vector<at::Tensor> buffers = {};
  /// Whether a second run ends with the last tensor that is needed.
  bool early_stop = true;
};

/// What two runs of a function must agree on.
struct TensorLook {
  explicit TensorLook(const at::Tensor& tensor);
  bool operator==(const TensorLook&) const = default;
  /// "Float[2, 3] on cpu"
  std::string text() const;

  c10::ScalarType dtype;
  c10::Device device;
  at::DimVector sizes;
};

/// One call of a checkpointed function. Lives as long as its graph does.
class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  using Again = std::function<void(const std::vector<at::Tensor>& inputs)>;

  /// `again` runs the function; it is called in the threads of backward, one at a time.
  Recomputation(Again again, const std::vector<at::Tensor>& inputs, RecomputeOptions options);

  /// A ticket for what an operation of the first run saves.
  std::unique_ptr<tensor::SavedTensor> ticket(const at::Tensor& tensor);
  void first_run_is_over() { first_run_over_ = true; }

 private:
  class Ticket;
  class SecondRun;
  struct Saved {
    explicit Saved(TensorLook first) : look(std::move(first)) {}
    TensorLook look;
    std::atomic<bool> wanted = true;  ///< its ticket is there
  };
  using Made = std::vector<tensor::UnchangedTensor>;

  at::Tensor recomputed(size_t number);
  Made run_again();
  void drop_at_end_of_backward(int task);

  Again again_;
  RecomputeOptions options_;
  std::vector<torch::autograd::SavedVariable> inputs_;
  RunState state_;
  std::atomic<bool> first_run_over_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Saved>> saved_;
  std::map<int, Made> made_;  ///< by graph task
};

/// While it lives, what operations of this thread save is computed again in backward.
class CheckpointedRun : public tensor::SavedTensorHooks {
 public:
  CheckpointedRun(Recomputation::Again again,
                  const std::vector<at::Tensor>& inputs,
                  RecomputeOptions options);
  ~CheckpointedRun() override;
  CheckpointedRun(const CheckpointedRun&) = delete;
  CheckpointedRun& operator=(const CheckpointedRun&) = delete;

  std::unique_ptr<tensor::SavedTensor> pack(const at::Tensor& tensor) override;

 private:
  std::optional<ScratchBuffers> scratch_;  ///< where this run is part of another one's second run
  std::shared_ptr<Recomputation> recomputation_;
  tensor::SavedTensorScope scope_;
};

}  // namespace muster::parallel
