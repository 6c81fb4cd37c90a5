// Which samples of the training split the validation has.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/data/sets/subset_dataset.h"
#include "muster/train/plan/options.h"

namespace muster::train {

/// Fills in --validation-split auto and --validation-samples -1 for this data. Throws a usage error
/// if none would be left to train on, for a file that cannot be read or has other samples than the
/// data, and for stratified where the dataset does not tell its classes.
void resolve_validation(TrainOptions& options, const data::Dataset& all);

/// "file:list.txt" with the file's whole path, so that a run can be resumed from any folder.
std::string with_whole_path(const std::string& validation_split);

struct TrainParts {
  std::shared_ptr<const data::SubsetDataset> train;
  std::shared_ptr<const data::SubsetDataset> validation;  ///< may have no samples
};

/// The parts of a training split, by options that are resolved: the same for the same options and
/// data, in any process, whatever became of a file that was named. Throws as resolve_validation().
TrainParts split_off(const TrainOptions& options, const std::shared_ptr<const data::Dataset>& all);

}  // namespace muster::train
