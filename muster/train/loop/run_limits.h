// Options that bound a run, and that must agree with each other and with the data.
#pragma once

#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// What a fast dev run is whatever else was said. See Note [Fast dev run].
void shorten(FitOptions& options);

// Note [Overfitting some batches]
// As Lightning's overfit_batches with a whole number: does the model learn at all? The training split
// is read in its own order, unshuffled, so that its first batches are the same ones in each epoch;
// the validation is over as many of its own. A transform goes on drawing anew.

/// Makes --overfit-batches the limits that it means. Throws a usage error where they are said otherwise.
void limit_to_overfit(FitOptions& options);

/// Throws a usage error for a least that cannot be reached. `numbers` are counted.
void check_least_and_most(const FitOptions& options, const FitNumbers& numbers);

/// Throws a usage error, before the first step, for what cannot work without a validation, and for one
/// that would never be. `numbers` are counted.
void check_validation(const FitOptions& options, const FitNumbers& numbers);

}  // namespace muster::train
