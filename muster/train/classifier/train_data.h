// The data of a run: opened, fitted to the model, split.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/data/dataset.h"
#include "muster/train/classifier/train_plan.h"
#include "muster/train/plan/fit_data.h"

namespace muster::train {

using DatasetPtr = std::shared_ptr<const data::Dataset>;

/// The two splits of a dataset, as they are.
struct TrainData {
  DatasetPtr train;  ///< validation samples still inside
  DatasetPtr test;
};

/// Opens a split of the dataset of `spec` ("name:key=value"). `learned` and `is_other` as in
/// data::DatasetRequest. Throws what the dataset throws.
DatasetPtr open_split(const std::string& spec,
                      const std::filesystem::path& data_dir,
                      data::Split split,
                      const std::string& learned = {},
                      bool is_other = false);

/// Both splits.
TrainData open_data(const std::string& spec, const std::filesystem::path& data_dir);

/// Images behind a chain of transforms, in the size and with the channels of the model; other samples
/// as they are.
DatasetPtr as_model_sees(DatasetPtr samples,
                         const std::string& chain,
                         const models::ImageShape& shape);

/// What the loop reads: the training split without the validation's samples, which may be none, and
/// the test split, each behind its chain, as images of the size and channels that the plan's model
/// takes.
FitData split_data(const TrainPlan& plan, const TrainData& data);

}  // namespace muster::train
