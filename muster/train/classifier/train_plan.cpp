#include "muster/train/classifier/train_plan.h"

#include <algorithm>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"
#include "muster/models/model.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/parts.h"
#include "muster/train/plan/option_checks.h"

namespace muster::train {
namespace {

void fit_model(TrainPlan& plan, const data::DataSpec& spec) {
  plan.spec = spec;
  if (!spec.is_image() || spec.classes < 2) {
    throw usage_error(
        {.refused = concat("model ", plan.model_name, " cannot take the data ", plan.data_name),
         .rule = "the models tell classes of images apart",
         .hint = "see `muster list datasets`"});
  }
  plan.model_shape = models::fitted_shape(models::models().at(plan.model_name),
                                          {.channels = spec.channels(),
                                           .height = spec.height(),
                                           .width = spec.width(),
                                           .classes = spec.classes});
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
  const int64_t train_size = train.size();
  int64_t& validation = options.validation_samples;
  if (validation < 0) validation = std::min<int64_t>(5000, train_size / 12);
  if (train_size - validation < 1) {
    throw usage_error(
        {.refused = "--validation-samples",
         .rule = concat("some of the ", train_size, " samples must be left to train on"),
         .value = std::to_string(validation)});
  }
  return {.train = train_size - validation,
          .validation = validation,
          .test = test.size(),
          .train_fingerprint = formats::crc32_text(train.fingerprint()),
          .test_fingerprint = formats::crc32_text(test.fingerprint())};
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
  std::tie(plan.data_name, plan.data_params) = split_spec(options.data);
  fit_model(plan, train.spec());
  const SplitFacts splits = split_samples(plan.options, train, test);
  static_cast<FitNumbers&>(plan) =
      resolve_fit(plan.options, around, splits, classifier_metrics(options.top_k));
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
  const auto size = [](int64_t channels, int64_t height, int64_t width) {
    return concat(channels, " x ", height, " x ", width);
  };
  const auto& shape = plan.spec.sample_shape;
  const models::ImageShape& seen = plan.model_shape;
  const std::string at_data = size(shape[0], shape[1], shape[2]);
  const std::string at_model = size(seen.channels, seen.height, seen.width);
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
       " to validate, ",
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
                           : concat(", made ",
                                    at_model,
                                    " for the model",
                                    seen.height != shape[1] || seen.width != shape[2]
                                        ? " (resized, bilinear with antialias)"
                                        : "",
                                    seen.channels != shape[0] ? " (channels repeated)" : ""));
  return out + explain(options,
                       plan,
                       concat("cross-entropy",
                              options.label_smoothing > 0
                                  ? concat(", label smoothing ", shortest(options.label_smoothing))
                                  : ""));
}

}  // namespace muster::train
