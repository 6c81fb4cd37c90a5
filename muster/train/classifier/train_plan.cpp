#include "muster/train/classifier/train_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/crc32.h"
#include "muster/models/model.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/parts.h"
#include "muster/train/classifier/validation_split.h"
#include "muster/train/plan/option_checks.h"

namespace muster::train {
namespace {

/// Channels, height and width behind a chain.
std::vector<int64_t> shape_behind(const data::Dataset& dataset, const std::string& chain) {
  return data::transformed_spec(dataset, data::parse_transforms(chain)).sample_shape;
}

std::string size_text(const std::vector<int64_t>& shape) {
  if (shape[1] == 0) return concat(shape[0], " x any size");
  return concat(shape[0], " x ", shape[1], " x ", shape[2]);
}

/// The model is as large as what it trains on; what it is asked about afterwards may be cut alike.
void remark_on_sizes(TrainPlan& plan,
                     const std::vector<int64_t>& trained,
                     const data::Dataset& test) {
  const std::vector<int64_t> asked = shape_behind(test, plan.options.eval_transform);
  const models::ImageShape& seen = plan.model_shape;
  if (trained != std::vector<int64_t>{seen.channels, seen.height, seen.width} || asked == trained)
    return;
  plan.size_remark = concat("validation and test images are resized from ",
                            size_text(asked),
                            " to the ",
                            size_text(trained),
                            " that --train-transform leaves; --eval-transform ",
                            asked[1] == 0 ? "that makes one size of them, or a size of the data,"
                                          : concat("center_crop:size=", trained[1]),
                            asked[1] == 0 ? " would keep their proportions" : " would cut them");
}

/// A model sees images of one size.
void check_has_size(const TrainPlan& plan, const std::vector<int64_t>& seen) {
  if (seen[1] > 0) return;
  const bool is_chained = !plan.options.train_transform.empty();
  throw usage_error({.refused = concat("--data ", plan.options.data),
                     .rule = concat("a model sees images of one size, and these differ",
                                    is_chained ? " behind --train-transform, too" : ""),
                     .hint = concat("fit them to one with the parameter size, as in ",
                                    plan.data_name,
                                    ":PATH,size=224, or let a step of --train-transform do it")});
}

void fit_model(TrainPlan& plan, const data::Dataset& train, const data::Dataset& test) {
  const data::DataSpec spec = train.spec();
  plan.spec = spec;
  if (!spec.is_image() || spec.classes < 2) {
    throw usage_error(
        {.refused = concat("model ", plan.model_name, " cannot take the data ", plan.data_name),
         .rule = "the models tell classes of images apart",
         .value = spec.is_image() ? concat(spec.classes, " classes")
                                  : std::string(data::to_string(spec.what())),
         .hint = "see `muster list datasets`"});
  }
  const std::vector<int64_t> seen = shape_behind(train, plan.options.train_transform);
  check_has_size(plan, seen);
  plan.model_shape = models::fitted_shape(
      models::models().at(plan.model_name),
      {.channels = seen[0], .height = seen[1], .width = seen[2], .classes = spec.classes});
  remark_on_sizes(plan, seen, test);
  if (plan.options.top_k > spec.classes) {
    throw usage_error({.refused = "--top-k",
                       .rule = concat("at most the ", spec.classes, " classes of the data"),
                       .value = std::to_string(plan.options.top_k)});
  }
}

/// The validation's samples are taken from the training split.
SplitFacts split_samples(TrainOptions& options,
                         const data::Dataset& train,
                         const data::Dataset& test) {
  resolve_validation(options, train);
  const std::shared_ptr<const data::Dataset> borrowed(&train, [](const data::Dataset*) {});
  const TrainParts parts = split_off(options, borrowed);
  return {.train = parts.train->size(),
          .validation = parts.validation->size(),
          .test = test.size(),
          .train_fingerprint = formats::crc32_text(train.fingerprint()),
          .test_fingerprint = formats::crc32_text(test.fingerprint()),
          .validation_fingerprint = formats::crc32_text(parts.validation->fingerprint())};
}

}  // namespace

TrainPlan resolve(const TrainOptions& options,
                  const Surroundings& around,
                  const data::Dataset& train,
                  const data::Dataset& test) {
  check_options(options);
  TrainPlan plan;
  plan.options = options;
  std::tie(plan.model_name, plan.model_params) = split_spec(options.model);
  Spec samples = data::parse_dataset_spec(options.data);
  plan.data_name = std::move(samples.name);
  plan.data_params = std::move(samples.params);
  fit_model(plan, train, test);
  const SplitFacts splits = split_samples(plan.options, train, test);
  static_cast<FitNumbers&>(plan) =
      resolve_fit(plan.options, around, splits, classifier_metrics(options.top_k));
  if (!plan.size_remark.empty()) plan.remarks.push_back(plan.size_remark);
  for (const data::Dataset* dataset : {&train, &test}) {
    for (std::string& remark : dataset->remarks()) {
      const bool is_known =
          std::find(plan.remarks.begin(), plan.remarks.end(), remark) != plan.remarks.end();
      if (!is_known) plan.remarks.push_back(std::move(remark));
    }
  }
  check_param_names(models::models().at(plan.model_name).params,
                    plan.model_params,
                    concat("model ", plan.model_name));
  check_model(plan);
  return plan;
}

FitPlan fit_plan(const TrainPlan& plan) {
  FitPlan out;
  static_cast<FitNumbers&>(out) = plan;
  out.options = plan.options;
  out.title = concat(plan.model_name, " on ", plan.data_name);
  out.record = to_json(plan);
  out.carried = carried_json(plan.options);
  out.explained = explain(plan);
  return out;
}

Json to_json(const TrainPlan& plan) {
  Json json = to_json(plan.options, plan);
  json["sample_shape"] = plan.spec.sample_shape;
  json["classes"] = plan.spec.classes;
  return json;
}

void check_weights(const TrainPlan& plan) {
  const std::filesystem::path& weights = plan.options.weights;
  if (weights.empty() || std::filesystem::is_regular_file(weights)) return;
  throw usage_error({.refused = "--weights " + weights.string(),
                     .rule = std::filesystem::exists(weights)
                                 ? "it is a folder, not a safetensors file"
                                 : "there is no such file"});
}

std::string explain(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  std::string out;
  const auto line = [&](std::string_view what, auto&&... text) {
    out += explained_line(what, concat(text...));
  };
  const auto& shape = plan.spec.sample_shape;
  const models::ImageShape& seen = plan.model_shape;
  const std::string at_data = size_text(shape);
  const std::string at_model = size_text({seen.channels, seen.height, seen.width});
  line("model",
       options.model,
       ", ",
       seen.classes,
       " classes",
       options.weights.empty() ? "" : ", weights from " + options.weights.string(),
       options.head == "new" ? ", its last layer drawn anew" : "");
  line("data",
       options.data,
       ": ",
       plan.train_samples,
       " to train, ",
       plan.validation_samples,
       " to validate",
       plan.validation_samples > 0 ? concat(" (", options.validation_split, ")") : "",
       ", ",
       plan.test_samples,
       " to test");
  line("fingerprint",
       plan.train_fingerprint,
       " of the training split, ",
       plan.test_fingerprint,
       " of the test split");
  line("images",
       at_data,
       at_data == at_model ? ""
       : !options.train_transform.empty()
           ? concat(", seen by the model as ", at_model)
           : concat(", made ",
                    at_model,
                    " for the model",
                    seen.height != shape[1] || seen.width != shape[2]
                        ? " (resized, bilinear with antialias)"
                        : "",
                    seen.channels != shape[0] ? " (channels repeated)" : ""));
  const auto or_none = [](const std::string& chain) { return chain.empty() ? "none" : chain; };
  if (!options.train_transform.empty() || !options.eval_transform.empty())
    line("transforms",
         "training ",
         or_none(options.train_transform),
         "; validation and test ",
         or_none(options.eval_transform));
  return out + explain(options,
                       plan,
                       concat("cross-entropy",
                              options.label_smoothing > 0
                                  ? concat(", label smoothing ", shortest(options.label_smoothing))
                                  : ""));
}

}  // namespace muster::train
