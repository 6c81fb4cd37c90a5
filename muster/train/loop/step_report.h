// What the ranks tell each other in every step.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/process_group.h"
#include "muster/train/metrics/meter.h"

namespace muster::train {

/// One small all-reduce that runs while backward does, so that before the optimizer's step every
/// rank knows the same: whether some rank wants to stop, whether a hook has thrown on one, whether
/// some rank's loss is not finite, and the global loss and metrics. A second one where a metric is a least or a greatest value. One
/// thread per rank.
class StepReport {
 public:
  StepReport(distributed::ProcessGroup group, Meter::List metrics)
      : group_(std::move(group)), sum_(std::move(metrics)) {}

  struct Wishes {
    bool stop = false;
    bool hook_failed = false;
  };

  /// Starts the exchange. `local` holds this rank's samples of the step, maybe none.
  void post(Wishes wishes, const Meter& local);
  /// Ends it. Collective; the answers below are those of the last exchange.
  void wait();

  bool stop() const { return stop_; }
  bool hook_failed() const { return hook_failed_; }
  int64_t ranks_not_finite() const { return not_finite_; }
  /// The samples of ranks whose loss is finite.
  const Meter& sum() const { return sum_; }

 private:
  distributed::ProcessGroup group_;
  at::Tensor sums_;    // [2 + …] float64: stop, not finite, Meter::sums()
  at::Tensor maxima_;  // [metrics] float64; undefined where no metric needs it
  c10::intrusive_ptr<c10d::Work> sums_work_, maxima_work_;
  bool stop_ = false;
  bool hook_failed_ = false;
  int64_t not_finite_ = 0;
  Meter sum_;
};

}  // namespace muster::train
