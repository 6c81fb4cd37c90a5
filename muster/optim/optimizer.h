// Optimizers: parameters and gradients in, parameters changed. One file of optimizers/ adds one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tensor/safetensors.h"

namespace muster::optim {

/// The rules are torch.optim's, kernel for kernel; docs/decisions/0009-fused-optimizers.md says how
/// near the numbers are. Parameters without gradient are left alone, as in Python. All parameters
/// are dense, floating-point, and share a device. Used by one thread.
class Optimizer {
 public:
  /// Names are those of the module's parameters; the state is saved under them.
  /// Throws a usage error as set_lr().
  Optimizer(tensor::NamedTensorList parameters, double lr) : parameters_(std::move(parameters)) {
    set_lr(lr);
  }
  virtual ~Optimizer() = default;

  /// One update. Gradients keep their values. Throws a usage error for a sparse gradient.
  virtual void step() = 0;
  virtual void zero_grad();  ///< gradients become undefined (Python's set_to_none)

  /// Tensors whose grad() are, or share their memory with, all gradients of this rank that the next
  /// step sees: to change them in place before it (GradScaler).
  virtual std::vector<at::Tensor> parameters();

  double lr() const { return lr_; }
  /// Throws a usage error if it is negative, infinite or NaN.
  void set_lr(double lr);

  /// What a one-cycle schedule moves against the learning rate: the momentum of sgd and rmsprop,
  /// beta1 of adam and adamw. Nothing if the optimizer has neither; setting it is then a usage
  /// error. Not part of the state: who sets it sets it again after a resume.
  virtual std::optional<double> momentum() const { return std::nullopt; }
  virtual void set_momentum(double momentum);

  /// All state needed to go on exactly: "momentum/fc1.weight", … A parameter that never had a
  /// gradient has none.
  virtual tensor::NamedTensorList state() const = 0;
  /// Replaces the state. Throws a usage error if a tensor is missing, unknown or of another shape.
  virtual void load_state(const tensor::TensorFile& file) = 0;

 protected:
  tensor::NamedTensorList parameters_;

 private:
  double lr_ = 0;
};

struct OptimizerEntry {
  static constexpr std::string_view kKind = "optimizer";
  std::string_view name;
  std::string_view help;
  double default_lr;
  std::span<const Param> params;
  std::unique_ptr<Optimizer> (*make)(tensor::NamedTensorList parameters,
                                     double lr,
                                     const ParamValues& params);
  /// Each element's update depends on that element's gradient and state alone, so that parameters
  /// may be updated in pieces (zero1, zero2).
  bool elementwise = true;
  /// Whether it keeps tensors of its own for each parameter, with these values, where a schedule sets
  /// momentums up to the second number (see most_momentum()); null: with any.
  bool (*keeps_state)(const ParamValues& params, double most_momentum) = nullptr;
  /// Values with which it keeps none, if no schedule sets a momentum, as they are typed, for a hint;
  /// empty: there are none.
  std::string_view without_state = {};
};

/// OptimizerEntry::keeps_state. Throws a usage error as make().
bool keeps_state(const OptimizerEntry& entry, const ParamValues& params, double most_momentum = 0);

/// All optimizers (generated; see Note [Generated tables]).
EntryTable<OptimizerEntry> optimizers();

}  // namespace muster::optim
