// Stand in for gradients that are not where a user looks for them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

// Note [Gradient marks]
// A loop calls optimizer.zero_grad() and optimizer.step(); with ZeRO the optimizer's tensors are
// the shard, which has gradients within zero.step() alone. So that neither call is without effect
// and without a word, each of those tensors has a mark for its grad() all the other time. A
// zero_grad() takes marks away, which is seen at the next occasion: the real gradients are dropped
// then. Whoever reads a mark, as an optimizer's step or a clipping does, gets its text as an error.

/// Is this a mark instead of a gradient?
bool is_gradient_mark(const at::Tensor& gradient);

/// Tensors with marks for their grad()s. A mark has the tensor's shape, and no memory.
class GradientMarks {
 public:
  GradientMarks() = default;
  /// Puts them. `text` is what the error says of who reads one.
  GradientMarks(const std::vector<at::Tensor>& tensors, const std::string& text);

  /// In the place of whatever gradients the tensors have.
  void put() const;
  /// Back into an undefined grad(), for what adds to it.
  void lift() const;
  /// Of how many tensors is the grad() undefined?
  size_t gone() const;
  size_t size() const { return marks_.size(); }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> marks_;  // tensor, mark
};

}  // namespace muster::parallel
