// What the training loop says to people.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/train/checkpoint.h"
#include "muster/train/early_stopping.h"
#include "muster/train/meter.h"
#include "muster/train/plan.h"
#include "muster/train/precision.h"

namespace muster::train {

/// "epoch 1/2: loss …, accuracy …; validation loss …, accuracy …", and what a loss scale did.
std::string epoch_line(const TrainPlan& plan,
                       int64_t epoch,
                       const Meter& train,
                       const Meter& validation,
                       const LossScaler& scaler);

std::string early_stop_line(const TrainPlan& plan, const EarlyStopping& best);

struct NotFinite {
  std::string what;   ///< "the loss"
  std::string value;  ///< what was seen: "1 of 2 ranks"
  double lr = 0;
  int64_t last_saved = -1;  ///< step of the newest checkpoint; -1: there is none
};

/// Of the step after `position`.
Error not_finite_error(const TrainPlan& plan,
                       const TrainPosition& position,
                       const NotFinite& found);

}  // namespace muster::train
