#include "muster/train/classifier/regressor_task.h"

#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "muster/base/error.h"

namespace muster::train {
namespace {

// Sums that the metrics are made of. Squares of the targets are taken of standardised ones: their mean is near 0, so
// that the difference below loses no digits, wherever the target's own 0 is.
constexpr const char* kSquaredError = "squared_error";
constexpr const char* kTargetMean = "standard_target";
constexpr const char* kTargetSquare = "standard_target_square";
constexpr const char* kStandardSquaredError = "standard_squared_error";

double root_of_mean(std::span<const double> values) { return std::sqrt(values[0]); }

/// Of the mean squared error, the targets' mean and the mean of their squares.
double determination(std::span<const double> values) {
  constexpr double kRounding = 1e-12;  // that of targets which are all the same
  const double error = values[0], square = values[1] * values[1];
  const double variance = values[2] - square;
  if (variance <= kRounding * square || variance <= 0) return error > 0 ? 0 : 1;
  return 1 - error / variance;
}

}  // namespace

std::vector<Metric> regressor_metrics() {
  return {
      {.name = "rmse", .wants_less = true, .of = {kSquaredError}, .formula = &root_of_mean},
      {.name = "mae", .wants_less = true},
      {.name = "r2",
       .of = {kStandardSquaredError, kTargetMean, kTargetSquare},
       .formula = &determination},
      {.name = kSquaredError, .wants_less = true, .is_hidden = true},
      {.name = kStandardSquaredError, .wants_less = true, .is_hidden = true},
      {.name = kTargetMean, .is_hidden = true},
      {.name = kTargetSquare, .is_hidden = true},
  };
}

RegressorTask::RegressorTask(std::shared_ptr<models::Classifier> model,
                             const RegressorOptions& options)
    : model_(std::move(model)), options_(options) {}

at::Tensor RegressorTask::answers_to(const data::Batch& batch) {
  return model_->forward(batch["data"]).to(at::kFloat).squeeze(1);
}

StepResult RegressorTask::train_step(const data::Batch& batch, const StepContext&) {
  const auto [mean, deviation] = options_.scale;
  const at::Tensor answers = answers_to(batch);
  const at::Tensor standard = (batch["target"] - mean) / deviation;  // float64
  const at::Tensor error = answers.detach().to(at::kDouble) - standard;
  const at::Tensor squares = error.square().sum();
  return {.loss = regression_loss(answers, standard.to(at::kFloat), options_.loss),
          // Not abs(), which has no meta kernel: the memory of a step is estimated there.
          .values = {{"mae", at::linalg_vector_norm(error, 1) * deviation, {}},
                     {kSquaredError, squares * (deviation * deviation), {}},
                     {kStandardSquaredError, squares, {}},
                     {kTargetMean, standard.sum(), {}},
                     {kTargetSquare, standard.square().sum(), {}}}};
}

StepResult RegressorTask::evaluate_step(const data::Batch& batch, const StepContext& context) {
  if (batch.find("target") == nullptr) {
    throw usage_error({.refused = "a measure of the model's answers",
                       .rule = "the samples have numbers to compare them with",
                       .value = "none: nothing says what they are",
                       .hint = "`muster predict` writes the answers"});
  }
  return train_step(batch, context);
}

tensor::NamedTensorList RegressorTask::predict_step(const data::Batch& batch, const StepContext&) {
  const auto [mean, deviation] = options_.scale;
  tensor::NamedTensorList answers{
      {"prediction", answers_to(batch).to(at::kDouble) * deviation + mean}};
  if (const at::Tensor* target = batch.find("target")) answers.emplace_back("target", *target);
  return answers;
}

bool RegressorTask::set_generator(const at::Generator& generator) {
  model_->set_generator(generator);
  return true;
}

}  // namespace muster::train
