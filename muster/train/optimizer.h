// Optimizers: parameters and gradients in, parameters changed. One file of optimizers/ adds one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/train/safetensors.h"

namespace muster::train {

/// Rules and order of operations are Python's torch.optim on the CPU, so that the same gradients
/// give the same bits. The sums are ATen's foreach kernels. Used by one thread. Parameters without
/// gradient are left alone, as in Python.
class Optimizer {
 public:
  /// Names are those of the module's parameters; the state is saved under them.
  Optimizer(NamedTensorList parameters, double lr) : parameters_(std::move(parameters)), lr_(lr) {}
  virtual ~Optimizer() = default;

  virtual void step() = 0;
  void zero_grad();  ///< gradients become undefined (Python's set_to_none)

  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }

  /// All state needed to go on exactly: "momentum/fc1.weight", …
  virtual NamedTensorList state() const = 0;
  /// Throws a usage error if a tensor is missing or of another shape.
  virtual void load_state(const TensorFile& file) = 0;

 protected:
  NamedTensorList parameters_;

 private:
  double lr_;
};

struct OptimizerEntry {
  static constexpr std::string_view kKind = "optimizer";
  std::string_view name;
  std::string_view help;
  double default_lr;
  std::span<const Param> params;
  std::unique_ptr<Optimizer> (*make)(NamedTensorList parameters,
                                     double lr,
                                     const ParamValues& params);
};

/// All optimizers (generated; see Note [Generated tables]).
EntryTable<OptimizerEntry> optimizers();

namespace detail {

/// One tensor per parameter, made when the parameter gets its first gradient ("momentum",
/// "exp_avg", …).
class Slots {
 public:
  Slots(std::string name, size_t count) : name_(std::move(name)), tensors_(count) {}
  at::Tensor& operator[](size_t index) { return tensors_[index]; }

  void save(const NamedTensorList& parameters, NamedTensorList& into) const;
  void load(const NamedTensorList& parameters, const TensorFile& file);

 private:
  std::string name_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace detail
}  // namespace muster::train
