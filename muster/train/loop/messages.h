// What the training loop says to people.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/loop/early_stopping.h"
#include "muster/train/loop/precision.h"
#include "muster/train/metrics/meter.h"
#include "muster/train/plan/plan.h"

namespace muster::train {

/// "epoch 1/2: loss …, accuracy …; validation loss …, accuracy …", and what a loss scale did; of a
/// run that ends inside an epoch "epoch 1/2, 20 of 430 steps: loss …". `position` is behind a step
/// of the epoch.
std::string epoch_line(const TrainPlan& plan,
                       const formats::TrainPosition& position,
                       const Meter& train,
                       const std::optional<Meter>& validation,
                       const LossScaler& scaler);

std::string early_stop_line(const TrainPlan& plan, const EarlyStopping& best);

struct NotFinite {
  std::string what;    ///< "the loss"
  std::string value;   ///< what was seen: "1 of 2 ranks"
  bool after = false;  ///< seen when the step of `position` was made; else in the step behind it
  double lr = 0;
  int64_t last_saved = -1;  ///< step of the newest checkpoint; -1: there is none
};

/// The run has diverged.
Error not_finite_error(const TrainPlan& plan,
                       const formats::TrainPosition& position,
                       const NotFinite& found);

}  // namespace muster::train
