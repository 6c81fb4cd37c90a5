// The caller's functions, called so that what one throws on one rank ends the run on all.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "muster/base/error.h"
#include "muster/distributed/process_group.h"
#include "muster/formats/checkpoint_index.h"
#include "muster/train/plan/callbacks.h"

namespace muster::train {

/// See Note [Hooks that throw]. Used by the rank's own thread.
class Hooks {
 public:
  /// `callbacks` and `position`, where the run is, outlive this.
  Hooks(const FitCallbacks& callbacks,
        distributed::ProcessGroup group,
        const formats::TrainPosition& position);
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  /// The caller's functions; none of them throws. They refer to this object.
  const FitCallbacks& callbacks() const { return callbacks_; }

  /// Where the run is, on this rank.
  HookPlace here() const;

  /// Whether one has thrown on this rank.
  bool failed() const { return failure_.has_value(); }

  /// What one threw on any rank (the lowest that has one), alike on all ranks. Collective.
  std::optional<Error> first_failure() const;

 private:
  template <class Result, class... Arguments>
  void guard(std::string_view name,
             const std::function<Result(Arguments...)>& own,
             std::function<Result(Arguments...)>& guarded);
  void keep(std::string_view name);

  FitCallbacks callbacks_;
  distributed::ProcessGroup group_;
  const formats::TrainPosition& position_;
  std::optional<Error> failure_;
};

}  // namespace muster::train
