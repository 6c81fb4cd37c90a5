// A run's rows, weights and pictures as TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "muster/tensor/named_tensors.h"
#include "muster/track/metrics_row.h"
#include "muster/track/tensorboard/tensorboard.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Tags: "train/loss", "validate/accuracy", … (phase/column), "parameters/NAME", "gradients/NAME",
/// "train/images", and the plan as text "plan" and as hyperparameters. Rank 0's thread.
class TensorBoardLog {
 public:
  /// Events of `purge_step` and later in earlier files of `folder` are purged. `resumed_after` is
  /// -1 for a new run.
  TensorBoardLog(const FitPlan& plan,
                 const std::vector<Metric>& metrics,
                 const std::filesystem::path& folder,
                 int64_t resumed_after,
                 std::optional<int64_t> purge_step);

  void row(const track::MetricsRow& row);
  /// Every parameter, and every gradient that there is.
  void histograms(const tensor::NamedTensorList& parameters, int64_t step);
  /// The first samples of a batch // [N, C, H, W] float32 with 1 or 3 channels, stretched to
  /// the range from black to white; others are left out.
  void images(const at::Tensor& batch, int64_t step);
  /// The run ended so; nothing: it was interrupted and may go on.
  void end_run(std::optional<track::RunStatus> status);

 private:
  track::TensorBoardWriter writer_;
};

}  // namespace muster::train
