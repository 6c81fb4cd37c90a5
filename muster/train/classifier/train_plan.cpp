#include "muster/train/classifier/train_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/crc32.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/learned_difference.h"
#include "muster/train/classifier/model_input.h"
#include "muster/train/classifier/parts.h"
#include "muster/train/classifier/plan_loss.h"
#include "muster/train/classifier/regressor_task.h"
#include "muster/train/classifier/validation_split.h"
#include "muster/train/plan/option_checks.h"

namespace muster::train {
namespace {

/// Of a checkpoint's plan.
constexpr const char* kClassNames = "class_names";
/// Of what is learned: the parameters that it was learned by, of which files may lie elsewhere now.
constexpr const char* kSaid = "said";

/// Channels, height and width behind a chain.
std::vector<int64_t> shape_behind(const data::Dataset& dataset, const std::string& chain) {
  return data::transformed_spec(dataset, data::parse_transforms(chain)).sample_shape;
}

/// Of a chain that is `flag`'s: what no image passes is refused before a run has a folder.
void try_chain(const data::Dataset& dataset, const std::string& chain, const char* flag) {
  try {
    data::try_on_blank(dataset, data::parse_transforms(chain));
  } catch (const c10::Error& error) {  // of an operator, whose words are all that there is
    const std::string text = error.what_without_backtrace();
    throw usage_error({.refused = concat(flag, ' ', chain),
                       .rule = first_line(text),
                       .hint = "its numbers do not fit these images, or this machine's memory"});
  }
}

/// Samples as the model gets them.
data::DataSpec spec_behind(const data::Dataset& dataset, const std::string& chain) {
  const std::shared_ptr<const data::Dataset> borrowed(&dataset, [](const data::Dataset*) {});
  return data::transformed(borrowed, chain)->spec();
}

std::string normalising_text(const data::DataSpec& spec) {
  if (spec.mean.empty()) return "are not normalised";
  const auto list = [](const std::vector<double>& values) {
    std::vector<std::string> texts;
    texts.reserve(values.size());
    for (const double value : values) texts.push_back(shortest(value));
    return join(texts, ", ");
  };
  return concat(
      "are normalised by mean ", list(spec.mean), " and deviation ", list(spec.standard_deviation));
}

/// What the model learns from is what it is asked about.
void check_alike(TrainPlan& plan, const data::Dataset& train, const data::Dataset& test) {
  const TrainOptions& options = plan.options;
  try_chain(train, options.train_transform, "--train-transform");
  try_chain(test, options.eval_transform, "--eval-transform");
  const data::DataSpec trained = spec_behind(train, options.train_transform);
  const data::DataSpec asked = spec_behind(test, options.eval_transform);
  if (trained.dtype == at::kDouble || asked.dtype == at::kDouble) {
    const bool is_train = trained.dtype == at::kDouble;
    throw usage_error(
        {.refused = concat(is_train ? "--train-transform " : "--eval-transform ",
                           is_train ? options.train_transform : options.eval_transform),
         .rule = "models take float32",
         .value = "float64",
         .hint = "end with to_dtype:dtype=float32"});
  }
  if (trained.channels() != asked.channels() && asked.channels() != 1) {
    throw usage_error(
        {.refused = options.train_transform.empty()
                        ? concat("--eval-transform ", options.eval_transform)
                        : concat("--train-transform ", options.train_transform),
         .rule = "training images have as many channels as those of validation and test",
         .value = concat(trained.channels(), " and ", asked.channels()),
         .hint = "say the same step for both, as in --eval-transform grayscale"});
  }
  const bool is_alike =
      trained.mean == asked.mean && trained.standard_deviation == asked.standard_deviation;
  if (trained.channels() == asked.channels() && !is_alike) {
    plan.input_remarks.push_back(
        concat("training images ",
               normalising_text(trained),
               ", validation and test images ",
               normalising_text(asked),
               ": say the same with --train-transform and --eval-transform"));
  }
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
  // A model that enlarges what it trains on, or repeats channels, does so with images of one size, too.
  const bool is_fitted = trained != std::vector<int64_t>{seen.channels, seen.height, seen.width};
  if (asked == trained || (is_fitted && asked[1] > 0)) return;
  const bool can_cut = asked[1] >= trained[1] && asked[2] >= trained[2] && asked[1] > 0;
  const std::string size = trained[1] == trained[2] ? std::to_string(trained[1])
                                                    : concat('[', trained[1], ',', trained[2], ']');
  plan.input_remarks.push_back(concat(
      "validation and test images are resized from ",
      size_text(asked),
      " to the ",
      size_text({seen.channels, seen.height, seen.width}),
      is_fitted                              ? " that the model takes"
      : plan.options.train_transform.empty() ? " that training images have"
                                             : " that --train-transform leaves",
      asked[1] == 0 ? "; --eval-transform that makes one size of them, or a size of the data, "
                      "would keep their proportions"
      : can_cut     ? concat("; --eval-transform center_crop:size=", size, " would cut them")
                    : ""));
}

/// A model sees images of one size.
void check_has_size(const TrainPlan& plan, const std::vector<int64_t>& seen) {
  if (seen[1] > 0) return;
  const bool is_chained = !plan.options.train_transform.empty();
  throw usage_error(
      {.refused = concat("--data ", said_data(plan.options.data, plan.options.data_dir)),
       .rule = concat("a model sees images of one size, and a folder's may differ",
                      is_chained ? " behind --train-transform, too" : ""),
       .hint = concat("fit them to one with the parameter size, as in ",
                      plan.data_name,
                      ":PATH,size=224, or let a step of --train-transform do it")});
}

void fit_images(TrainPlan& plan, const data::Dataset& train, const data::Dataset& test) {
  const std::vector<int64_t> seen = shape_behind(train, plan.options.train_transform);
  check_has_size(plan, seen);
  check_alike(plan, train, test);
  plan.model_shape = models::fitted_shape(
      models::models().at(plan.model_name),
      {.channels = seen[0], .height = seen[1], .width = seen[2], .classes = plan.spec.classes});
  remark_on_sizes(plan, seen, test);
}

void fit_model(TrainPlan& plan, const data::Dataset& train, const data::Dataset& test) {
  plan.spec = train.spec();
  plan.learned = train.learned();
  if (plan.spec.classes == 0) plan.target_scale = formats::learned_target_scale(plan.learned);
  const bool is_regression = plan.target_scale.has_value();
  if (plan.spec.is_image() && plan.spec.classes > 1) {
    fit_images(plan, train, test);
  } else {
    plan.model_shape =
        input_shape(models::models().at(plan.model_name), plan.spec, plan.data_name, is_regression);
    spec_behind(train, plan.options.train_transform);  // refuses chains: they are of images
    spec_behind(test, plan.options.eval_transform);
  }
  if (is_regression) return;  // see resolve_loss()
  if (plan.options.top_k > plan.spec.classes) {
    throw usage_error({.refused = "--top-k",
                       .rule = concat("at most the ", plan.spec.classes, " classes of the data"),
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
  Spec model = parse_spec(options.model);
  plan.model_name = std::move(model.name);
  plan.model_params = std::move(model.params);
  Spec samples = data::parse_dataset_spec(options.data);
  plan.data_name = std::move(samples.name);
  plan.data_params = std::move(samples.params);
  fit_model(plan, train, test);
  resolve_loss(plan);
  const SplitFacts splits = split_samples(plan.options, train, test);
  static_cast<FitNumbers&>(plan) =
      resolve_fit(plan.options,
                  around,
                  splits,
                  plan.target_scale ? regressor_metrics() : classifier_metrics(options.top_k));
  std::ranges::move(plan.input_remarks, std::back_inserter(plan.remarks));
  for (const data::Dataset* dataset : {&train, &test}) {
    for (std::string& remark : dataset->remarks()) {
      const bool is_known = std::ranges::find(plan.remarks, remark) != plan.remarks.end();
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
  if (!plan.spec.class_names.empty()) out.carried[kClassNames] = plan.spec.class_names;
  if (!plan.learned.empty()) out.carried[kLearned] = plan.learned;
  out.explained = explain(plan);
  return out;
}

void check_class_names(const Json& record, const data::DataSpec& spec, const std::string& data) {
  if (!record.contains(kClassNames) || spec.class_names.empty()) return;
  const auto trained = record.at(kClassNames).get<std::vector<std::string>>();
  if (trained == spec.class_names) return;
  static constexpr size_t kMostNamed = 12;
  const auto list = [](const std::vector<std::string>& names) {
    const auto first = names.begin();
    const auto end = first + static_cast<ptrdiff_t>(std::min(names.size(), kMostNamed));
    return concat(join(std::vector<std::string>(first, end), ", "),
                  names.size() > kMostNamed ? ", …" : "");
  };
  throw usage_error({.refused = concat("--data ", data),
                     .rule = concat("the classes are those that the run was trained on, by their "
                                    "names: ",
                                    list(trained)),
                     .value = list(spec.class_names)});
}

std::string said_data(const std::string& data, const std::filesystem::path& data_dir) {
  return data_dir.empty() ? data : concat(data, " --data-dir ", data_dir.string());
}

std::string learned_before(const Json& record) { return record.value(kLearned, ""); }

void check_learned(const Json& record, const std::string& learned, const std::string& data) {
  const std::string before = learned_before(record);
  if (before.empty() || before == learned) return;
  Json was = parse_json(before, "the run's record");
  Json is = learned.empty() ? Json::object() : parse_json(learned, "the data");
  was.erase(kSaid);
  is.erase(kSaid);
  if (was == is) return;
  const auto [what, then, now] = learned_difference(was, is);
  throw usage_error({.refused = concat("--resume with --data ", data),
                     .rule = concat("the ", what, " is what the run has learned by: ", then),
                     .value = now,
                     .hint = "go on with the files that the run began with, or begin a new run"});
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

namespace {

/// What the model sees, for --explain.
std::pair<std::string_view, std::string> input_text(const TrainPlan& plan) {
  const auto& shape = plan.spec.sample_shape;
  const models::ImageShape& seen = plan.model_shape;
  if (seen.vocabulary > 0)
    return {"tokens",
            concat("of ", seen.vocabulary, ", at most ", seen.width, " of a sample, padded")};
  if (!plan.spec.is_image()) return {"numbers", concat(seen.width, " a sample")};
  const std::string at_data = size_text(shape);
  const std::string at_model = size_text({seen.channels, seen.height, seen.width});
  const bool is_resized = seen.height != shape[1] || seen.width != shape[2];
  return {"images",
          concat(at_data,
                 at_data == at_model ? ""
                 : !plan.options.train_transform.empty()
                     ? ", seen by the model as " + at_model
                     : concat(", made ",
                              at_model,
                              " for the model",
                              is_resized ? " (resized, bilinear with antialias)" : "",
                              seen.channels != shape[0] ? " (channels repeated)" : ""))};
}

}  // namespace

std::string explain(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  std::string out;
  const auto line = [&](std::string_view what, auto&&... text) {
    out += explained_line(what, concat(text...));
  };
  const models::ImageShape& seen = plan.model_shape;
  line("model",
       options.model,
       ", ",
       plan.target_scale ? "one number" : concat(seen.classes, " classes"),
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
  const auto [what, text] = input_text(plan);
  line(what, text);
  // A file may have it on several lines.
  const auto or_none = [](const std::string& chain) {
    std::vector<std::string> lines;
    for (const std::string& part : split(chain, '\n')) {
      if (!trim(part).empty()) lines.emplace_back(trim(part));
    }
    return lines.empty() ? "none" : join(lines, " ");
  };
  if (!options.train_transform.empty() || !options.eval_transform.empty())
    line("transforms",
         "training ",
         or_none(options.train_transform),
         "; validation and test ",
         or_none(options.eval_transform));
  return out + explain(options, plan, loss_text(plan));
}

}  // namespace muster::train
