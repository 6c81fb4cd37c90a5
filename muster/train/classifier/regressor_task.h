// The other built-in task: rows of numbers to one number.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/formats/csv_data.h"
#include "muster/models/model.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/task/task.h"

namespace muster::train {

struct RegressorOptions {
  RegressionLoss loss;
  formats::TargetScale scale;  ///< of the targets of all samples but the test's
};

/// "rmse", "mae" and "r2" of all samples, in the target's own units, and the hidden sums that they are made of.
///
///     rmse = sqrt(sum (y - p)^2 / N)
///     mae  = sum |y - p| / N
///     r2   = 1 - sum (y - p)^2 / sum (y - mean y)^2     of the samples that are measured
///
/// As scikit-learn's r2_score, r2 of targets that are all the same is 1 where they are all met, else 0.
std::vector<Metric> regressor_metrics();

/// A model's one output for a batch's "data" // [N, F], against its "target" // [N] float64, in its own units. The
/// model answers in standardised ones (less the mean of the targets of all samples but the test's, divided by their deviation),
/// which the loss is of; metrics and predictions are in the target's.
class RegressorTask final : public Task {
 public:
  RegressorTask(std::shared_ptr<models::Classifier> model, const RegressorOptions& options);

  std::string name() const override { return "regressor"; }
  std::shared_ptr<torch::nn::Module> module() override { return model_; }
  std::vector<Metric> metrics() const override { return regressor_metrics(); }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override;
  StepResult evaluate_step(const data::Batch& batch, const StepContext& context) override;
  /// "prediction" // [N] float64, and the batch's "target" // [N] float64, if it has one.
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const StepContext& context) override;
  bool set_generator(const at::Generator& generator) override;

 private:
  /// Standardised // [N] float32; the model gets "data" in the dtype of its parameters.
  at::Tensor answers_to(const data::Batch& batch);

  std::shared_ptr<models::Classifier> model_;
  RegressorOptions options_;
};

}  // namespace muster::train
