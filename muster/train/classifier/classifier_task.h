// The built-in task: images, texts or rows of numbers to classes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/models/model.h"
#include "muster/train/task/task.h"

namespace muster::train {

struct ClassifierOptions {
  double label_smoothing = 0;  ///< of the training's loss
  int64_t top_k = 0;  ///< also count samples whose class is among the k best scores; 0: do not
};

/// "accuracy", and "top_k_accuracy" in evaluations if it is asked for.
std::vector<Metric> classifier_metrics(int64_t top_k);

/// Cross-entropy of the scores for a batch's "data" // [N, C, H, W], [N, T] int64 or [N, F], against its "target" // [N]
/// int64; a confusion matrix of the test.
class ClassifierTask final : public Task {
 public:
  ClassifierTask(std::shared_ptr<models::Classifier> model, const ClassifierOptions& options);

  std::string name() const override { return "classifier"; }
  std::shared_ptr<torch::nn::Module> module() override { return model_; }
  std::vector<Metric> metrics() const override { return classifier_metrics(options_.top_k); }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override;
  StepResult evaluate_step(const data::Batch& batch, const StepContext& context) override;
  /// "class" // [N] int64, "probability" // [N] of it, "probabilities" // [N, classes], and the
  /// batch's "target" // [N] int64, if it has one.
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const StepContext& context) override;
  void begin_evaluation(Phase phase, const data::DataSpec& spec) override;
  void end_evaluation(Phase phase, const distributed::ProcessGroup& group) override;
  TaskReport report() override;
  bool set_generator(const at::Generator& generator) override;
  at::Tensor images(const data::Batch& batch) const override { return batch["data"]; }

 private:
  /// Scores // [N, classes] float32; the model gets them in the dtype of its parameters.
  at::Tensor scores_of(const data::Batch& batch);

  std::shared_ptr<models::Classifier> model_;
  ClassifierOptions options_;
  std::optional<ConfusionMatrix> confusion_;  // of a test
};

}  // namespace muster::train
