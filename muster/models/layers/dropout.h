// Dropout that draws from a generator of its own.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace muster::models {

// Note [Dropout and generators]
// LibTorch's dropout draws from the default generator of the device, of which a process has one.
// Ranks that are threads would draw from it in turns: races decide who gets which mask, and no run
// can be repeated. Here each model has its generator. Without one, dropout is LibTorch's own, so
// that the same torch::manual_seed gives the masks of Python's F.dropout; with one seeded alike it
// gives the same masks again, since the draws are the same: one bernoulli_(1 - p) of the input's
// shape, dtype and strides.
//
// A generator's state (get_state) is all that dropout carries from step to step, so it is what a
// checkpoint keeps. Copies of an at::Generator share their state.

/// Sets a share of the numbers to zero while training and scales up the others by 1 / (1 - p).
/// Source: Srivastava et al. 2014. No parameters and no buffers, so it adds no name to a state.
class DropoutImpl : public torch::nn::Module {
 public:
  /// Throws a usage error unless p is in 0 … 1.
  explicit DropoutImpl(double p = 0.5);

  /// x // [any shape], floating point. In eval mode and for p = 0 it is x itself.
  at::Tensor forward(const at::Tensor& x);

  /// Draws come from it from now on; an undefined one means the device's default generator. It
  /// must be of the device of the inputs.
  void set_generator(const at::Generator& generator);

  double p() const { return p_; }

 private:
  double p_;
  std::optional<at::Generator> generator_;
};
TORCH_MODULE(Dropout);

/// Gives the generator to `module` and every dropout below it; nothing happens if there is none.
void set_generator(torch::nn::Module& module, const at::Generator& generator);

}  // namespace muster::models
