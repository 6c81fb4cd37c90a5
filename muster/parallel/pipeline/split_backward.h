// Backward in two halves: the gradients of a graph's inputs now, those of its parameters later.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

namespace muster::parallel {

// Note [Backward in two halves]
// A node of the graph is on the way if an input lies behind it; all others lead to parameters
// alone. The first half is a backward to the inputs, for which autograd runs the nodes on the way,
// and of each only what that way needs: not the gradient of a Linear's weight. Where a node on the
// way also leads to parameters (the *frontier*), the gradients that come in are kept. Then the
// edges between it and the way are cut, so that nodes which lead to inputs alone are freed with
// what they saved: what a ReLU keeps, not what a Linear does. The second half is a backward from
// the frontier, with these gradients, through what is left of the graph. So a node of the frontier
// runs twice, each time for one of its results, all others run once.

/// What the second half needs. Movable; any thread, one at a time.
class WeightGradients {
 public:
  WeightGradients() = default;
  WeightGradients(std::vector<torch::autograd::Edge> from, std::vector<at::Tensor> gradients)
      : from_(std::move(from)), gradients_(std::move(gradients)) {}

  /// Of the gradients that are kept, memory that several have in common once.
  int64_t bytes() const;

  /// Adds to `.grad` of all parameters behind, and frees the graph; once.
  void accumulate();

 private:
  std::vector<torch::autograd::Edge> from_;
  std::vector<at::Tensor> gradients_;
};

struct InputGradients {
  std::vector<at::Tensor> gradients;  ///< of the inputs; undefined where nothing leads to one
  WeightGradients weights;
};

/// Runs the first half from `outputs`, whose gradients are `gradients` (an empty list: 1 for a
/// tensor of one element). Undefined ones are left out, as are outputs without a graph. `inputs`
/// are leaves; those that need no gradient get none. An input that is no leaf is where the first
/// half ends: what lies behind it is the second half's. Adds to no `.grad`. The graph can be gone
/// through no other way afterwards.
InputGradients backward_of_inputs(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& gradients,
                                  const std::vector<at::Tensor>& inputs);

/// The whole backward at once: adds to the parameters' `.grad`; returns the inputs' gradients.
std::vector<at::Tensor> backward_of_all(const std::vector<at::Tensor>& outputs,
                                        const std::vector<at::Tensor>& gradients,
                                        const std::vector<at::Tensor>& inputs);

}  // namespace muster::parallel
