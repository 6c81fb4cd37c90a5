// What the ranks tell each other in every step.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/process_group.h"
#include "muster/train/metrics/meter.h"

namespace muster::train {

/// One small all-reduce that runs while backward does, so that before the optimizer's step every
/// rank knows the same: whether some rank wants to stop, whether some rank's loss is not finite,
/// and the global loss and accuracy. One thread per rank.
class StepReport {
 public:
  explicit StepReport(distributed::ProcessGroup group) : group_(std::move(group)) {}

  /// Starts the exchange. `local` holds this rank's samples of the step, maybe none.
  void post(bool stop, const Meter& local);
  /// Ends it. Collective; the answers below are those of the last exchange.
  void wait();

  bool stop() const { return field(0) > 0; }
  int64_t ranks_not_finite() const { return static_cast<int64_t>(field(1)); }
  int64_t count() const { return static_cast<int64_t>(field(4)); }
  /// The samples of ranks whose loss is finite.
  void add_to(Meter& meter) const;

 private:
  double field(int64_t index) const;

  distributed::ProcessGroup group_;
  at::Tensor fields_;  // [5] float64: stop, not finite, sum of losses, correct, count
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace muster::train
