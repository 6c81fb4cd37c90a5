// What a training reads.
#pragma once

#include <memory>

#include "muster/data/dataset.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// What a training reads. Validation and test may be null or empty: there is none then.
struct FitData {
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> validation;
  std::shared_ptr<const data::Dataset> test;

  /// Reads what the fingerprints of the splits are made of.
  SplitFacts facts() const;
};

}  // namespace muster::train
