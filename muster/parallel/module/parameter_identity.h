// Notices a module whose parameters are not what was wrapped any more, and mends what it can.
#pragma once

#include <vector>

#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// Whoever averages gradients has hooks on the tensors that the module had when it was wrapped.
/// Module::to() with another device or dtype and torch::load() leave them behind, and so does a
/// replaced submodule: training would go on, and gradients would not be averaged any more. One
/// rank's thread.
class ParameterIdentity {
 public:
  /// All parameters of the module, frozen and ignored ones too.
  explicit ParameterIdentity(NamedTensors parameters);
  ~ParameterIdentity();
  ParameterIdentity(const ParameterIdentity&) = delete;
  ParameterIdentity& operator=(const ParameterIdentity&) = delete;

  /// Records what `averaged`, some of the module's parameters, are now, and the places where their
  /// gradients are accumulated, after hooks were put there; these places live on with this object.
  /// `frozen` are those that are not averaged since they were not trained.
  void record(const NamedTensors& averaged, const NamedTensors& frozen);

  /// Before a forward that trains. A parameter that has lost its hooks, and is of the dtype, device
  /// and shape that it was wrapped with, gets them back: weights may be loaded at any time. Throws
  /// a usage error that names the first one of another kind, and the first of `frozen` that is
  /// trained now. About 20 ns each.
  void check();

  /// `now`: the module's parameters, as at construction.
  bool holds(const NamedTensors& now) const;
  /// Throws the usage error for parameters for which holds() is false.
  [[noreturn]] void throw_changed(const NamedTensors& now) const;

 private:
  struct Averaged;  // hides the kind of pointer, which differs between LibTorch's versions

  NamedTensors parameters_, frozen_;
  std::vector<Averaged> averaged_;
};

}  // namespace muster::parallel
