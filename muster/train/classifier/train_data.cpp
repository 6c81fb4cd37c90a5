#include "muster/train/classifier/train_data.h"

#include "muster/data/sets/subset_dataset.h"
#include "muster/data/transforms/fit_images.h"

namespace muster::train {

DatasetPtr open_split(const std::string& spec,
                      const std::filesystem::path& data_dir,
                      data::Split split) {
  const auto [name, params] = split_spec(spec);
  return data::datasets().at(name).open({.data_dir = data_dir, .split = split, .params = params});
}

TrainData open_data(const std::string& spec, const std::filesystem::path& data_dir) {
  TrainData data;
  data.train = open_split(spec, data_dir, data::Split::kTrain);
  data.test = open_split(spec, data_dir, data::Split::kTest);
  return data;
}

FitData split_data(const TrainPlan& plan, const TrainData& data) {
  const models::ImageShape& shape = plan.model_shape;
  const auto fitted = [&](const DatasetPtr& set) {
    return data::fit_images(set, shape.channels, shape.height, shape.width);
  };
  const auto part = [](const DatasetPtr& set, int64_t first, int64_t count) {
    return std::make_shared<data::SubsetDataset>(set, first, count);
  };
  const DatasetPtr all = fitted(data.train);
  return {.train = part(all, 0, plan.train_samples),
          .validation = part(all, plan.train_samples, plan.validation_samples),
          .test = fitted(data.test)};
}

}  // namespace muster::train
