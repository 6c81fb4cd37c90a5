// The data of a run: opened, fitted to the model, split.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/train/classifier/train_plan.h"
#include "muster/train/plan/fit_data.h"

namespace muster::train {

using DatasetPtr = std::shared_ptr<const data::Dataset>;

/// The two splits of a dataset, as they are.
struct TrainData {
  DatasetPtr train;  ///< validation samples still inside
  DatasetPtr test;
  std::vector<std::string> remarks = {};  ///< for people: files that are gone and not needed
};

/// Opens a split of the dataset of `spec` ("name:key=value"). `learned`, `is_other` and `needs_targets` as
/// in data::DatasetRequest. With `data_dir` files of its parameters are looked for beside it, see
/// formats::look_beside(). Throws what the dataset throws.
DatasetPtr open_split(const std::string& spec,
                      const std::filesystem::path& data_dir,
                      data::Split split,
                      const std::string& learned = {},
                      bool is_other = false,
                      bool needs_targets = false);

/// Both splits. `learned`: by a run that goes on; where a tokenizer or a list of classes is gone that it
/// was learned from, samples are read by it, else it is learned anew.
TrainData open_data(const std::string& spec,
                    const std::filesystem::path& data_dir,
                    const std::string& learned = {});

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
