#include "muster/train/classifier/train_data.h"

#include "muster/data/sets/subset_dataset.h"
#include "muster/data/transforms/fit_images.h"

namespace muster::train {

TrainData open_data(const std::string& spec, const std::filesystem::path& data_dir) {
  const auto [name, params] = split_spec(spec);
  const data::DatasetEntry& entry = data::datasets().at(name);
  data::DatasetRequest request{.data_dir = data_dir, .params = params};
  TrainData data;
  data.train = entry.open(request);
  request.split = data::Split::kTest;
  data.test = entry.open(request);
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
