#include "muster/train/classifier/train_data.h"

#include <utility>
#include <vector>

#include "muster/data/transform/transformed.h"
#include "muster/data/transforms/fit_images.h"
#include "muster/train/classifier/validation_split.h"

namespace muster::train {

DatasetPtr open_split(const std::string& spec,
                      const std::filesystem::path& data_dir,
                      data::Split split,
                      const std::string& learned,
                      bool is_other) {
  const Spec asked = data::parse_dataset_spec(spec);
  return data::datasets()
      .at(asked.name)
      .open({.data_dir = data_dir,
             .split = split,
             .params = asked.params,
             .learned = learned,
             .is_other = is_other});
}

TrainData open_data(const std::string& spec, const std::filesystem::path& data_dir) {
  TrainData data;
  data.train = open_split(spec, data_dir, data::Split::kTrain);
  data.test = open_split(spec, data_dir, data::Split::kTest);
  return data;
}

DatasetPtr as_model_sees(DatasetPtr samples,
                         const std::string& chain,
                         const models::ImageShape& shape) {
  std::vector<data::TransformMaker> steps = data::parse_transforms(chain);
  if (!samples->spec().is_image()) return data::transformed(std::move(samples), steps);
  if (steps.empty())
    return data::fit_images(std::move(samples), shape.channels, shape.height, shape.width);
  steps.emplace_back([shape](const data::DataSpec& before) {
    return data::make_fit_images({shape.channels, shape.height, shape.width}, before);
  });
  return data::transformed(std::move(samples), steps);
}

FitData split_data(const TrainPlan& plan, const TrainData& data) {
  const TrainOptions& options = plan.options;
  const TrainParts parts = split_off(options, data.train);
  return {.train = as_model_sees(parts.train, options.train_transform, plan.model_shape),
          .validation = as_model_sees(parts.validation, options.eval_transform, plan.model_shape),
          .test = as_model_sees(data.test, options.eval_transform, plan.model_shape)};
}

}  // namespace muster::train
