// What of the options can be judged by itself, without data, model and ranks.
#pragma once

#include "muster/train/plan/options.h"

namespace muster::train {

/// Throws a usage error for a number out of range or a name that is none, by the name of its flag.
void check_options(const FitOptions& options);
void check_options(const TrainOptions& options);

}  // namespace muster::train
