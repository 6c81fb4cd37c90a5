#include "muster/train/classifier/trainer.h"

#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/parts.h"
#include "muster/train/classifier/regressor_task.h"

namespace muster::train {
namespace {

FitRequest request_of(const TrainPlan& plan,
                      const TrainData& data,
                      const std::filesystem::path& output,
                      const std::optional<Checkpoint>& resume,
                      const FitCallbacks& callbacks,
                      RunFolder* owned) {
  return {.task = classifier_maker(plan, resume.has_value()),
          .data = split_data(plan, data),
          .plan = fit_plan(plan),
          .output = output,
          .resume = resume,
          .callbacks = callbacks,
          .owned = owned};
}

}  // namespace

TaskMaker classifier_maker(const TrainPlan& plan, bool is_resumed) {
  return [&plan, is_resumed]() -> std::unique_ptr<Task> {
    if (plan.target_scale) {
      const RegressorOptions options{.loss = parse_regression_loss(plan.options.loss, "--loss"),
                                     .scale = *plan.target_scale};
      return std::make_unique<RegressorTask>(make_initial_model(plan, is_resumed), options);
    }
    return std::make_unique<ClassifierTask>(make_initial_model(plan, is_resumed),
                                            ClassifierOptions{
                                                .label_smoothing = plan.options.label_smoothing,
                                                .top_k = plan.options.top_k,
                                            });
  };
}

FitResult train(const TrainPlan& plan,
                const TrainData& data,
                const distributed::ProcessGroup& group,
                const std::filesystem::path& output,
                const std::optional<Checkpoint>& resume,
                const FitCallbacks& callbacks,
                RunFolder* owned) {
  return fit(request_of(plan, data, output, resume, callbacks, owned), group);
}

FitResult train_on_threads(const TrainPlan& plan,
                           const TrainData& data,
                           const std::filesystem::path& output,
                           const std::optional<Checkpoint>& resume,
                           const FitCallbacks& callbacks,
                           RunFolder* owned) {
  return fit_on_threads(request_of(plan, data, output, resume, callbacks, owned));
}

}  // namespace muster::train
