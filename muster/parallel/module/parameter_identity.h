// Notices a module whose parameters are not the ones that were wrapped any more.
#pragma once

#include <vector>

#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// DDP's hooks sit on the tensors that the module had when it was wrapped. Module::to() with
/// another device or dtype, and a replaced submodule, leave them behind: training goes on, and
/// gradients are not averaged any more. One rank's thread.
class ParameterIdentity {
 public:
  /// All parameters of the module, frozen and ignored ones too.
  explicit ParameterIdentity(NamedTensors parameters);

  /// Records where gradients of `averaged`, some of the module's parameters, are accumulated now,
  /// after the Reducer has put its hooks there; it also keeps them alive, as nobody does for
  /// others.
  void record_hooks(const NamedTensors& averaged);

  /// Throws a usage error that names the parameter. About 20 ns each.
  void check_hooks() const;

  /// `now`: the module's parameters, as at construction.
  bool holds(const NamedTensors& now) const;
  /// Throws the usage error for parameters for which holds() is false.
  [[noreturn]] void refuse(const NamedTensors& now) const;

 private:
  NamedTensors parameters_;
  std::vector<const void*> accumulators_;  // by parameter; null for those not averaged
};

}  // namespace muster::parallel
