// ZeRO-3, FSDP: weights in shards, gathered unit by unit while the model runs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/parallel/module/tensors.h"
#include "muster/parallel/sharded/sharded_parameters.h"
#include "muster/tensor/unit_call.h"

namespace muster::parallel {

/// A part of a model whose weights come and go together: the calls of that name by
/// tensor::call_unit(). Without parameters it has those of the submodule of that name.
using ShardUnit = tensor::Unit;

// Note [Sharded units]
// Forward: a unit's weights are gathered before it runs and released behind it; while it runs,
// those of the unit that came next last time are on their way. Backward: a hook on the unit's
// outputs gathers them again, releases the unit whose backward is over and sends for the unit that
// ran before this one. So no more than two units are whole at a time, and the rest: what belongs to
// no unit, or to several of them, is gathered at the beginning of a forward and stays until the
// step.
//
// The hook is a node of its own behind all outputs of a unit: it runs before any of the unit's,
// also where an output is changed in place outside, is a view, or is an input that was passed on.
// What a unit computes beside its outputs (a member that keeps an attention map) must not go into
// the loss.
//
// A unit is released when the backward of the one before it begins, and not when its last gradient
// is there: what is frozen, or looked at besides, has been used by then, since autograd takes what
// forward did last first. Transfers begin in the order of forward and of backward, which are the
// same on all ranks.

/// Names of units, and which of a model's parameters are whose.
class UnitMap {
 public:
  /// Throws a usage error for a unit without parameters or without a name, for two of one name, and
  /// for one inside another.
  UnitMap(const std::vector<ShardUnit>& units, const NamedTensors& parameters);

  /// 0 for the rest: the parameters of no unit and of several ones.
  size_t of(const at::Tensor& parameter) const;
  /// 0 for a name of no unit.
  size_t named(std::string_view name) const;
  const std::string& name(size_t unit) const { return names_[unit]; }
  size_t size() const { return names_.size(); }

 private:
  void refuse_nested() const;

  std::vector<std::string> names_;  // from 1
  std::unordered_map<const void*, size_t> units_;
};

/// Gathers and releases. Made as a shared pointer; used by the rank's own thread, or on devices in
/// backward by autograd's while that one waits.
class ShardedUnits final : public tensor::UnitCalls,
                           public std::enable_shared_from_this<ShardedUnits> {
 public:
  /// `parameters`, and those that are `frozen` if there are any, outlive it; their buckets are the
  /// map's units.
  ShardedUnits(ShardedParameters& parameters, ShardedParameters* frozen, UnitMap units);

  /// `begins`: called before the first unit's backward. `over`: behind a unit's, where it ran
  /// several times of its first run, with each bucket of its trained ones; not behind the last one's.
  void watch_backward(std::function<void()> begins, std::function<void(size_t bucket)> over) {
    begins_ = std::move(begins);
    over_ = std::move(over);
  }

  /// Empty for the rest.
  const std::string& name(size_t unit) const { return units_.name(unit); }

  /// The rest is there from now on. With `in_named_order` a usage error is thrown if units are
  /// called in another order than they were named in. Collective.
  void begin_forward(bool in_named_order = false);
  /// Without gradients nothing stays that was not there.
  void end_forward();
  std::vector<at::Tensor> call(std::string_view unit,
                               const tensor::UnitForward& forward,
                               const std::vector<at::Tensor>& inputs) override;

  /// Takes part in a forward without gradients of the other ranks, in the order in which units were
  /// named. Collective.
  void stand_aside();

  /// What an optimizer's step, or a forward that threw, must not leave. Throws a usage error while
  /// all weights are held.
  void release_all();

  /// Weights of units that an error left behind.
  void release_units() { release_but(0); }
  /// What was written to weights that are held becomes the shards'.
  void take_held();

  /// All weights are whole from hold() to release_held(). Collective.
  void hold();
  void release_held();

 private:
  using Number = std::optional<size_t>;

  void start(size_t unit);
  void gather(size_t unit);
  void release(size_t unit);
  void release_but(size_t kept);
  /// A unit's run in a forward.
  struct Run {
    size_t unit;
    Number before;  ///< the unit that ran before it
    bool is_first;  ///< of this unit in the forward
  };
  struct Gate;

  Number next_of(size_t unit);
  bool is_whole(size_t unit) const;
  std::vector<at::Tensor> gated(std::vector<at::Tensor> outputs, const Run& run);
  void before_backward(const Run& run);
  void leave_backward();

  struct Bucket {
    ShardedParameters* of;
    size_t number;
  };

  ShardedParameters& parameters_;
  UnitMap units_;
  std::vector<std::vector<Bucket>> buckets_;  // by unit
  std::vector<size_t> order_, last_order_;    // of units, in this forward and in the one before
  Number running_;                            // the unit that forward is in
  size_t called_ = 0;                         // units, in a forward without gradients
  bool in_named_order_ = false;
  bool rest_stays_ = false;  // was there before the forward, or before all weights were held
  std::optional<Run> in_backward_;
  std::weak_ptr<void> backward_;  // the one under way
  std::function<void()> begins_;
  std::function<void(size_t)> over_;
  int holds_ = 0;
};

/// Units of the calling thread are called by `units` while it lives.
class UnitsInForward {
 public:
  /// Collective: the rest is there from now on.
  explicit UnitsInForward(ShardedUnits& units, bool in_named_order = false);
  ~UnitsInForward();
  UnitsInForward(const UnitsInForward&) = delete;
  UnitsInForward& operator=(const UnitsInForward&) = delete;

 private:
  tensor::UnitCallScope scope_;
  bool autocast_caches_;  // casts of weights, which would keep all units' at a time
};

/// All weights of a model are whole while it lives.
class WholeWeights {
 public:
  explicit WholeWeights(std::shared_ptr<ShardedUnits> units) : units_(std::move(units)) {
    if (units_) units_->hold();
  }
  ~WholeWeights() {
    if (units_) units_->release_held();
  }
  WholeWeights(WholeWeights&& other) noexcept : units_(std::move(other.units_)) {}
  WholeWeights& operator=(WholeWeights&&) = delete;

 private:
  std::shared_ptr<ShardedUnits> units_;  // null: they are whole anyhow
};

}  // namespace muster::parallel
