// What optimizers share: which parameters have a gradient, and a tensor of state for each.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/tensor/safetensors.h"

namespace muster::optim::detail {

/// Parameters that take part in a step. The three lists are parallel.
struct ReadyList {
  std::vector<size_t> indices;  ///< into the optimizer's parameters
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  ///< laid out in memory as their parameters
};

/// The parameters that have a gradient. Throws a usage error for a sparse gradient.
/// See Note [Layout of gradients] in the source.
ReadyList ready(const tensor::NamedTensorList& parameters);

using TensorLists = std::vector<std::vector<at::Tensor>>;

/// Calls `work` for one part of the parallel lists after the other, parts small enough that what
/// one kernel writes is still in cache when the next reads it: short tensors together, long ones
/// alone and, where ATen has one thread, cut into flat views. `lists[i][k]` are laid out as
/// `lists[0][k]` and dense; `work` treats each number alone. On other devices than the CPU `work`
/// gets the lists as they are.
void in_parts(const TensorLists& lists, const std::function<void(const TensorLists&)>& work);

/// A saved state by name, for loaders that look up many names.
using StateIndex = std::map<std::string, at::Tensor, std::less<>>;
/// Throws a usage error for a tensor that is none of "KIND/PARAMETER", with the nearest name.
StateIndex index_state(const tensor::TensorFile& file,
                       const tensor::NamedTensorList& parameters,
                       const std::vector<std::string_view>& kinds);

/// One tensor per parameter, undefined until the parameter's first gradient ("momentum", "exp_avg",
/// …).
class Slots {
 public:
  Slots(std::string name, size_t count) : name_(std::move(name)), tensors_(count) {}

  const std::string& name() const { return name_; }
  at::Tensor& operator[](size_t index) { return tensors_[index]; }
  const at::Tensor& operator[](size_t index) const { return tensors_[index]; }

  /// The tensors of `ready`'s parameters; those that were undefined are made, of zeros.
  std::vector<at::Tensor> of(const ReadyList& ready);

  void save(const tensor::NamedTensorList& parameters, tensor::NamedTensorList& into) const;
  /// Tensors of the file are copied to the parameter's device and dtype; a parameter without one
  /// becomes undefined. Throws a usage error for another shape.
  void load(const tensor::NamedTensorList& parameters, const StateIndex& state);

 private:
  std::string name_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace muster::optim::detail
