#include "muster/train/classifier/trainer.h"

#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/parts.h"

namespace muster::train {

TaskMaker classifier_maker(const TrainPlan& plan, bool is_resumed) {
  return [&plan, is_resumed]() -> std::unique_ptr<Task> {
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
  return fit(classifier_maker(plan, resume.has_value()),
             split_data(plan, data),
             fit_plan(plan),
             group,
             output,
             resume,
             callbacks,
             owned);
}

FitResult train_on_threads(const TrainPlan& plan,
                           const TrainData& data,
                           const std::filesystem::path& output,
                           const std::optional<Checkpoint>& resume,
                           const FitCallbacks& callbacks,
                           RunFolder* owned) {
  return fit_on_threads(classifier_maker(plan, resume.has_value()),
                        split_data(plan, data),
                        fit_plan(plan),
                        output,
                        resume,
                        callbacks,
                        owned);
}

}  // namespace muster::train
