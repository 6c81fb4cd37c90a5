// What the ranks tell each other in every step.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/process_group.h"
#include "muster/tensor/device/host_copy.h"
#include "muster/train/metrics/meter.h"
#include "muster/train/metrics/step_sums.h"

namespace muster::train {

/// One small all-reduce that runs while backward does, so that before the optimizer's step every
/// rank knows the same: whether some rank wants to stop, whether a hook has thrown on one, whether
/// the run's time is over, whether some rank's loss is not finite, and the global loss and metrics. A second one where a metric is a
/// least or a greatest value. One thread per rank.
///
/// On an accelerator the ranks know it a step late, so that no step waits for the host: exchanges
/// are posted in one step and waited for in the next. Those of a group whose tensors are on the same
/// device are made there; else, when the values have come to the host, beside the next step's
/// backward. See Note [Sums on the device].
class StepReport {
 public:
  /// `device`: where the group's tensors are, or that of the sums where the group moves them, too.
  StepReport(distributed::ProcessGroup group, Meter::List metrics, c10::Device device);
  StepReport(const distributed::ProcessGroup& group, Meter::List metrics)
      : StepReport(group, std::move(metrics), group.device()) {}

  struct Wishes {
    bool stop = false;
    bool hook_failed = false;
    bool time_is_over = false;  ///< said by one rank
  };

  /// Starts the exchange. `local` holds this rank's samples of the step, maybe none.
  void post(Wishes wishes, const StepSums& local);
  /// When backward is queued: the answers that a device finds are sent to the host.
  void send_answers();
  /// How many exchanges are posted and not waited for.
  size_t pending() const { return exchanges_.size(); }
  /// Ends the oldest one. Collective; the answers below are its.
  void wait();

  bool stop() const { return stop_; }
  bool hook_failed() const { return hook_failed_; }
  bool time_is_over() const { return time_is_over_; }
  int64_t ranks_not_finite() const { return not_finite_; }
  /// The samples of ranks whose loss is finite.
  const Meter& sum() const { return sum_; }

 private:
  /// Of values on another device than the group's: first they come to the host.
  struct Coming {
    Wishes wishes;
    Meter weights;
    tensor::HostCopy values;
  };
  struct Exchange {
    std::optional<Coming> coming;  // until it is started
    at::Tensor sums;               // [2 + …] float64: stop, not finite, Meter::sums()
    at::Tensor maxima;             // [metrics] float64; undefined where no metric needs it
    c10::intrusive_ptr<c10d::Work> sums_work, maxima_work;
    std::optional<tensor::HostCopy> sums_sent, maxima_sent;
  };

  void start_coming();
  void start(Exchange& exchange);
  static void end_works(Exchange& exchange);

  distributed::ProcessGroup group_;
  c10::Device device_;
  std::deque<Exchange> exchanges_;
  bool stop_ = false;
  bool hook_failed_ = false;
  bool time_is_over_ = false;
  int64_t not_finite_ = 0;
  Meter sum_;
};

}  // namespace muster::train
