#include "muster/train/classifier/train_data.h"

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/data/transform/transformed.h"
#include "muster/data/transforms/fit_images.h"
#include "muster/formats/dataset_spec.h"
#include "muster/train/classifier/validation_split.h"

namespace muster::train {

namespace {

/// Its files where they lie now.
Spec found_spec(const std::string& text, const std::filesystem::path& data_dir) {
  Spec spec = data::parse_dataset_spec(text);
  if (data_dir.empty()) return spec;
  formats::look_beside(data_dir, spec.params);
  const std::string missing = formats::missing_test(spec.params);
  if (missing.empty()) return spec;
  throw usage_error({.refused = concat("dataset ", spec.name, " parameter \"test\""),
                     .rule = concat("the file is there, or beside --data-dir ", data_dir.string()),
                     .value = missing,
                     .hint = "say --data again with the same parameters, and test= with the place "
                             "where it lies now"});
}

}  // namespace

DatasetPtr open_split(const std::string& spec,
                      const std::filesystem::path& data_dir,
                      data::Split split,
                      const std::string& learned,
                      bool is_other,
                      bool needs_targets) {
  const Spec asked = found_spec(spec, data_dir);
  return data::datasets()
      .at(asked.name)
      .open({.data_dir = data_dir,
             .split = split,
             .params = asked.params,
             .learned = learned,
             .is_other = is_other,
             .needs_targets = needs_targets});
}

TrainData open_data(const std::string& spec,
                    const std::filesystem::path& data_dir,
                    const std::string& learned) {
  TrainData data;
  std::string read_by;
  if (!learned.empty()) {
    for (const std::string& file : formats::missing_taught(found_spec(spec, data_dir).params)) {
      data.remarks.push_back(
          concat(file, " is gone: what the run learned of it is in its checkpoint"));
      read_by = learned;
    }
  }
  data.train = open_split(spec, data_dir, data::Split::kTrain, read_by);
  data.test = open_split(spec, data_dir, data::Split::kTest, read_by);
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
