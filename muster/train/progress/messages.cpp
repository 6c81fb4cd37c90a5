#include "muster/train/progress/messages.h"

#include <vector>

#include "muster/base/counted.h"
#include "muster/base/metric_text.h"
#include "muster/base/text.h"

namespace muster::train {

std::string epoch_line(const FitPlan& plan,
                       const formats::TrainPosition& position,
                       const Metrics& train,
                       const Metrics& validation,
                       const LossScaler& scaler) {
  std::string line = concat("epoch ", position.epoch + 1, '/', plan.options.epochs);
  if (position.samples < plan.samples_per_epoch) {
    const int64_t steps = (position.samples + plan.samples_per_step - 1) / plan.samples_per_step;
    line += concat(", ", steps, " of ", plan.steps_per_epoch, " steps");
  }
  line += ": " + text_of(train);
  if (!validation.empty()) line += "; validation " + text_of(validation);
  if (scaler.enabled()) {
    line += concat("; loss scale ",
                   shortest(scaler.scale()),
                   ", ",
                   scaler.skipped_steps(),
                   scaler.skipped_steps() == 1 ? " step" : " steps",
                   " left out so far");
  }
  return line;
}

std::string early_stop_line(const FitPlan& plan,
                            const EarlyStopping& best,
                            int64_t best_step,
                            bool is_at_once) {
  const bool by_step =
      plan.options.val_check_interval > 0 || plan.options.check_val_every_n_epoch > 1;
  const std::string place =
      concat(by_step ? "step " : "epoch ", by_step ? best_step : best.best_epoch() + 1);
  return concat("stopped early: ",
                counted(best.epochs_waited(), by_step ? "validation" : "epoch"),
                " without a ",
                best.best() ? "" : "finite ",
                plan.options.monitor,
                best.best() ? concat(" better than ", place, "'s ", metric_text(*best.best())) : "",
                is_at_once ? concat("; with --patience ",
                                    best.epochs_waited() + 1,
                                    " or more, or 0, which never stops, the run goes on from here")
                           : "");
}

std::string time_limit_line(const FitPlan& plan, const formats::TrainPosition& position) {
  return concat("stopped after step ",
                position.step,
                ": --max-time ",
                human_duration(plan.options.max_time),
                " is over; a longer one goes on from here");
}

std::string nothing_left_line(const FitPlan& plan, const formats::TrainPosition& position) {
  const int64_t epochs = plan.options.epochs, max_steps = plan.options.max_steps;
  std::vector<std::string> reached;
  if (position.epoch >= epochs) reached.push_back(concat("--epochs ", epochs));
  const bool has_all_steps = max_steps > 0 && position.step >= max_steps;
  if (has_all_steps) reached.push_back(concat("--max-steps ", max_steps));
  return concat("nothing is left to train after step ",
                position.step,
                ": ",
                join(reached, " and "),
                reached.size() == 1 ? " is reached; a larger one goes on from here"
                                    : " are reached; larger ones go on from here",
                has_all_steps ? " (--max-steps 0: without that limit)" : "");
}

Error not_finite_error(const FitPlan& plan,
                       const formats::TrainPosition& position,
                       double lr,
                       int64_t last_saved,
                       const NotFinite& found) {
  const bool is_half = plan.precision.kind == Precision::kFloat16Mixed;
  const std::string smaller =
      concat("try a smaller --lr (now ",
             shortest(lr),
             ") or --gradient-clip-val 1",
             is_half ? ", or --precision bf16-mixed, which has float32's range" : "");
  // Behind an epoch's last step the position is already that of the next one.
  const bool epoch_is_over = found.after && position.samples == 0;
  return environment_error(
      {.refused = concat(found.what,
                         " is not finite ",
                         found.after ? "after" : "in",
                         " step ",
                         position.step + (found.after ? 0 : 1),
                         " (epoch ",
                         position.epoch + (epoch_is_over ? 0 : 1),
                         ")"),
       .rule = "training goes on only with finite numbers",
       .value = found.value,
       .hint = concat(found.hint.empty() ? smaller : found.hint,
                      "; ",
                      last_saved >= 0 ? concat("the checkpoint of step ", last_saved, " is intact")
                                      : "no checkpoint was written yet")});
}

}  // namespace muster::train
