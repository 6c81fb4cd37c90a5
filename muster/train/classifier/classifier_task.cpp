#include "muster/train/classifier/classifier_task.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/metrics/loss.h"

namespace muster::train {

std::vector<Metric> classifier_metrics(int64_t top_k) {
  std::vector<Metric> metrics{{.name = "accuracy"}};
  if (top_k > 0) metrics.push_back({.name = "top_k_accuracy"});
  return metrics;
}

ClassifierTask::ClassifierTask(std::shared_ptr<models::Classifier> model,
                               const ClassifierOptions& options)
    : model_(std::move(model)), options_(options) {}

at::Tensor ClassifierTask::scores_of(const data::Batch& batch) {
  return model_->forward(batch["data"]).to(at::kFloat);
}

StepResult ClassifierTask::train_step(const data::Batch& batch, const StepContext&) {
  const at::Tensor scores = scores_of(batch);
  const at::Tensor& target = batch["target"];
  return {.loss = cross_entropy(scores, target, options_.label_smoothing),
          .values = {{"accuracy", scores.argmax(1).eq(target).sum(), {}}}};
}

StepResult ClassifierTask::evaluate_step(const data::Batch& batch, const StepContext&) {
  if (batch.find("target") == nullptr) {
    throw usage_error({.refused = "a measure of the model's answers",
                       .rule = "the samples have classes to compare them with",
                       .value = "none: nothing says what they are",
                       .hint = "`muster predict` writes the answers"});
  }
  const at::Tensor scores = scores_of(batch);
  const at::Tensor& target = batch["target"];
  const at::Tensor predicted = scores.argmax(1);
  if (confusion_) confusion_->add(predicted, target);
  StepResult result{.loss = cross_entropy(scores, target),
                    .values = {{"accuracy", predicted.eq(target).sum(), {}}}};
  if (options_.top_k > 0)
    result.values.push_back({"top_k_accuracy", in_top_k(scores, target, options_.top_k), {}});
  return result;
}

tensor::NamedTensorList ClassifierTask::predict_step(const data::Batch& batch, const StepContext&) {
  const at::Tensor probabilities = scores_of(batch).softmax(1);
  auto [best, predicted] = probabilities.max(1);
  tensor::NamedTensorList answers{
      {"class", predicted}, {"probability", best}, {"probabilities", probabilities}};
  if (const at::Tensor* target = batch.find("target")) answers.emplace_back("target", *target);
  return answers;
}

void ClassifierTask::begin_evaluation(Phase phase, const data::DataSpec& spec) {
  confusion_.reset();
  if (phase == Phase::kTest && spec.classes > 0) confusion_.emplace(spec.classes, spec.class_names);
}

void ClassifierTask::end_evaluation(Phase, const distributed::ProcessGroup& group) {
  if (!confusion_ || group.world_size() == 1) return;
  const at::Tensor counts = confusion_->counts().to(group.device());
  group.all_reduce(counts);
  confusion_->counts().copy_(counts);
}

TaskReport ClassifierTask::report() {
  if (!confusion_) return {};
  return {.lines = {{"macro F1", fixed(confusion_->macro().f1, 4)}}, .confusion = confusion_};
}

bool ClassifierTask::set_generator(const at::Generator& generator) {
  model_->set_generator(generator);
  return true;
}

}  // namespace muster::train
