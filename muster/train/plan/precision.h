// What --precision says: in which dtypes a run computes, and how it keeps float16 gradients from
// becoming 0.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/base/params.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/precision/autocast.h"
#include "muster/parallel/precision/grad_scaler.h"

namespace muster::train {

// Note [Mixed precision]
// Weights, gradients and optimizer state are float32 under every precision, so strategies,
// checkpoints and clipping do not change. What changes is the dtype of matrix products and
// convolutions in forward, and with them in backward: torch.autocast's lists. A weight is cast
// anew wherever it is used: autocast's cache belongs to the process, and another thread rank that
// ends its forward would empty it at a moment that no one can repeat.
//
// float16 ends at 65504 and, towards 0, at 6e-8. So the loss is multiplied by a scale, gradients
// are divided by it, and where one of them is not finite on any rank, all ranks leave the step out
// and the scale falls (GradScaler). The position counts such a step, for its samples are consumed,
// and so do schedules and max_steps; the optimizer never sees it, so Adam's own count does not.

enum class Precision { kFloat32, kBfloat16Mixed, kFloat16Mixed };

struct PrecisionOptions {
  Precision kind = Precision::kFloat32;
  parallel::GradScalerOptions scaler;  ///< for kFloat16Mixed
};

/// "32", "bf16-mixed" or "16-mixed", the last with GradScalerOptions as parameters. Throws a usage
/// error for another name, another parameter, or a value out of range.
PrecisionOptions parse_precision(const std::string& name, const ParamValues& params);

/// One line for --explain.
std::string describe(const PrecisionOptions& options);

/// While it lives, this thread computes as `precision` says: around forward and loss, not around
/// backward.
class PrecisionGuard {
 public:
  PrecisionGuard(Precision precision, c10::Device device);

 private:
  std::optional<parallel::AutocastGuard> autocast_;
};

/// One rank's loss scale. Does nothing but under kFloat16Mixed. Used by the rank's own thread.
class LossScaler {
 public:
  LossScaler(const PrecisionOptions& options, const distributed::ProcessGroup& group);

  bool enabled() const { return scaler_.enabled(); }

  /// `loss` times the scale.
  at::Tensor scale(const at::Tensor& loss) { return scaler_.scale(loss); }

  /// Divides the gradients by the scale and calls `update`, which makes the step, unless `finite`
  /// is false or a gradient of any rank is not finite. Then adjusts the scale. True if `update` was
  /// called: the same on every rank. Collective.
  bool step(optim::Optimizer& optimizer, bool finite, const std::function<void()>& update);
  /// The same with a number of this rank on its device that is not finite if its loss is not.
  bool step(optim::Optimizer& optimizer,
            const at::Tensor& loss,
            const std::function<void()>& update);

  /// The scale is so low that it cannot be why gradients are not finite.
  bool exhausted() const { return enabled() && scaler_.scale() < kFloor; }

  double scale() const { return scaler_.scale(); }
  int64_t skipped_steps() const { return skipped_; }  ///< of the whole run

  /// For the checkpoint: the scale, when it grows, and the count of skipped steps.
  Json state() const;
  void load_state(const Json& state);

 private:
  static constexpr double kFloor = 1;

  parallel::GradScaler scaler_;
  int64_t skipped_ = 0;
};

}  // namespace muster::train
