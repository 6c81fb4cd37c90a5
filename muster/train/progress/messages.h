// What the training loop says to people.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/precision.h"
#include "muster/train/progress/early_stopping.h"

namespace muster::train {

/// "epoch 1/2: loss …, accuracy …; validation loss …, accuracy …", and what a loss scale did; of a
/// run that ends inside an epoch "epoch 1/2, 20 of 430 steps: loss …". `position` is behind a step
/// of the epoch.
std::string epoch_line(const FitPlan& plan,
                       const formats::TrainPosition& position,
                       const Metrics& train,
                       const Metrics& validation,
                       const LossScaler& scaler);

/// `best_step`: after which the best validation was. `is_at_once`: the run goes on from where patience was
/// at its end, and made no step.
std::string early_stop_line(const FitPlan& plan,
                            const EarlyStopping& best,
                            int64_t best_step,
                            bool is_at_once = false);

/// Of a run that ends by its time, or that began behind it.
std::string time_limit_line(const FitPlan& plan, const formats::TrainPosition& position);

/// Of a run that goes on with no step left to make: which of --epochs and --max-steps it has
/// reached, and what lifts them.
std::string nothing_left_line(const FitPlan& plan, const formats::TrainPosition& position);

struct NotFinite {
  std::string what;    ///< "the loss"
  std::string value;   ///< what was seen: "1 of 2 ranks"
  bool after = false;  ///< seen when the step of `position` was made; else in the step behind it
  std::string hint;    ///< instead of a smaller rate
};

/// The run has diverged, at that learning rate. `last_saved`: step of the newest checkpoint; -1:
/// there is none.
Error not_finite_error(const FitPlan& plan,
                       const formats::TrainPosition& position,
                       double lr,
                       int64_t last_saved,
                       const NotFinite& found);

}  // namespace muster::train
