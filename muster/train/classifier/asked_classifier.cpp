#include "muster/train/classifier/asked_classifier.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/data/sets/file_samples.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/crc32.h"
#include "muster/formats/dataset_spec.h"
#include "muster/train/classifier/model_input.h"
#include "muster/train/classifier/trainer.h"
#include "muster/train/classifier/validation_split.h"
#include "muster/train/loop/asked_run.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

/// What the run's model sees: that of its training data.
struct TrainedOn {
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;

  bool operator==(const TrainedOn&) const = default;
};

std::string described(const TrainedOn& data) {
  std::vector<std::string> sizes;
  sizes.reserve(data.sample_shape.size());
  for (const int64_t size : data.sample_shape) sizes.push_back(std::to_string(size));
  return concat("samples of ",
                join(sizes, " x "),
                data.classes > 0 ? concat(", ", data.classes, " classes") : ", without classes");
}

void check_is_of_train(const std::filesystem::path& run, const Checkpoint& saved) {
  const Json task = saved.loop.value("task_name", Json("classifier"));  // older ones have none
  const bool is_ours = task == "classifier" || task == "regressor";
  if (is_ours && saved.plan.contains("model") && saved.plan.contains("data")) return;
  const std::string own = saved.plan.value("program", "");
  throw usage_error({.refused = run.string(),
                     .rule = "the run is one of `muster train`",
                     .value = concat("task ", task.is_string() ? task.get<std::string>() : "?"),
                     .hint = own.empty() ? "ask it with the program that made it"
                                         : concat("ask it with the program that made it: `",
                                                  own,
                                                  " evaluate ",
                                                  run.string(),
                                                  '`')});
}

/// The part of the plan that says what the model is, and what it was trained on.
TrainPlan plan_of(const Json& record) {
  TrainPlan plan;
  take_over(record, {}, plan.options);
  Spec model = parse_spec(plan.options.model);
  plan.model_name = std::move(model.name);
  plan.model_params = std::move(model.params);
  Spec samples = data::parse_dataset_spec(plan.options.data);
  plan.data_name = std::move(samples.name);
  plan.data_params = std::move(samples.params);
  const auto [precision, params] = parse_spec(plan.options.precision);
  plan.precision = parse_precision(precision, params);
  plan.train_samples = record.value("train_samples", int64_t{0});
  plan.learned = learned_before(record);
  if (record.value("classes", int64_t{1}) == 0)
    plan.target_scale = formats::learned_target_scale(plan.learned);
  plan.train_fingerprint = record.value("train_fingerprint", "");
  plan.test_fingerprint = record.value("test_fingerprint", "");
  return plan;
}

TrainedOn trained_on(const Json& record, const TrainPlan& plan) {
  if (record.contains("sample_shape") && record.contains("classes"))
    return {record.at("sample_shape").get<std::vector<int64_t>>(),
            record.at("classes").get<int64_t>()};
  // A checkpoint of before 0.9 does not say.
  const data::DataSpec spec =
      open_split(plan.options.data, plan.options.data_dir, data::Split::kTest)->spec();
  return {spec.sample_shape, spec.classes};
}

/// What was asked about.
struct Wanted {
  std::string data;
  std::filesystem::path data_dir;
  bool is_own = false;        ///< the run's own data
  bool is_elsewhere = false;  ///< of the same kind as the run's own, which lay in another place
  std::string learned;        ///< by the run, of data of the same kind
};

/// Whether the training samples are the run's own: of its path, whatever is said of other files.
bool is_own_but_files(const std::string& data, const TrainPlan& plan) {
  return formats::differ_in_places_alone(plan.options.data, data) &&
         data::parse_dataset_spec(data).params["path"] ==
             data::parse_dataset_spec(plan.options.data).params["path"];
}

Wanted wanted_data(const AskOptions& said, const TrainPlan& plan) {
  Wanted wanted{.data =
                    said.data.empty() ? plan.options.data : formats::with_whole_path(said.data)};
  wanted.is_own = wanted.data == plan.options.data ||
                  (said.split != "test" && is_own_but_files(wanted.data, plan));
  wanted.is_elsewhere =
      !wanted.is_own && formats::differ_in_places_alone(plan.options.data, wanted.data);
  const Spec spec = data::parse_dataset_spec(wanted.data);
  const bool same_files = spec.name == plan.data_name;
  // The run's --data-dir may stand for its path, and never for another one.
  const bool has_own_path = !wanted.is_own && spec.params.contains("path");
  wanted.data_dir = !said.data_dir.empty()        ? said.data_dir
                    : same_files && !has_own_path ? plan.options.data_dir
                                                  : std::filesystem::path();
  if (same_files) wanted.learned = plan.learned;
  return wanted;
}

constexpr const char* kIfMoved =
    "--data in another place is other data; if it is the run's own that was moved, leave "
    "--data away and say where it lies now: --data-dir PATH";

/// Samples of the run's own training split: those that it trained on, or those that it held out.
DatasetPtr own_part(const std::string& split, const TrainPlan& plan, const DatasetPtr& all) {
  const int64_t held_out = plan.options.validation_samples;
  if (all->size() != plan.train_samples + held_out) {
    throw usage_error(
        {.refused = "--split " + split,
         .rule = concat("the run's training data had ", plan.train_samples + held_out, " samples"),
         .value = concat(all->size(), " now"),
         .hint = "name the folder of the data that it was trained on: --data-dir"});
  }
  const TrainParts parts = split_off(plan.options, all);
  if (split == "train") return parts.train;
  if (held_out == 0) {
    throw usage_error({.refused = "--split validation",
                       .rule = "the run held out no samples (--validation-samples 0)",
                       .hint = "take --split test or train"});
  }
  return parts.validation;
}

DatasetPtr wanted_split(const AskOptions& said, const Wanted& wanted, const TrainPlan& plan) {
  const std::string& split = said.split;
  const auto open = [&](data::Split part) {
    return open_split(
        wanted.data, wanted.data_dir, part, wanted.learned, !wanted.is_own, said.needs_targets);
  };
  if (split == "test") return open(data::Split::kTest);
  const std::vector<std::string> known{"test", "train", "validation"};
  if (split != "train" && split != "validation") {
    throw usage_error({.refused = "--split",
                       .rule = "test, train or validation",
                       .value = split,
                       .hint = suggestion(split, known)});
  }
  if (!wanted.is_own && split == "validation") {
    throw usage_error({.refused = "--split validation",
                       .rule = "the validation samples are those that the run held out of its own "
                               "training data",
                       .value = "--data " + wanted.data,
                       .hint = wanted.is_elsewhere
                                   ? kIfMoved
                                   : "take --split test or train, or leave --data away"});
  }
  const DatasetPtr all = open(data::Split::kTrain);
  return wanted.is_own ? own_part(split, plan, all) : all;
}

void check_fits(const Wanted& wanted, const data::DataSpec& spec, const TrainedOn& seen) {
  const TrainedOn now{spec.sample_shape, spec.classes};
  if (now == seen) return;
  throw usage_error({.refused = "--data " + said_data(wanted.data, wanted.data_dir),
                     .rule = concat("as the run's model was trained on: ", described(seen)),
                     .value = described(now)});
}

/// Whether the run's own samples are what they were.
void note_content(const std::string& split,
                  const TrainPlan& plan,
                  const DatasetPtr& samples,
                  std::vector<std::string>& notes) {
  const auto* part = dynamic_cast<const data::SubsetDataset*>(samples.get());
  const data::Dataset& whole = part != nullptr ? *part->whole() : *samples;
  const std::string& before = split == "test" ? plan.test_fingerprint : plan.train_fingerprint;
  const std::string now = formats::crc32_text(whole.fingerprint());
  // The data set's own split may be a part of its files, too.
  if (before.empty() || before == now || before == formats::crc32_text(samples->fingerprint()))
    return;
  notes.push_back(concat("the ",
                         split == "test" ? "test" : "training",
                         " split has other content than when the run began (fingerprint ",
                         now,
                         ", before ",
                         before,
                         "): its numbers cannot be compared with the run's"));
}

}  // namespace

AskedClassifier ask_classifier(const AskOptions& said,
                               const Surroundings& around,
                               const distributed::ProcessGroup& group,
                               c10::Device device) {
  check_batch_size(said);
  Checkpoint saved;  // on rank 0
  on_first_rank(group, [&] {
    saved = read_asked(said);
    check_is_of_train(said.run, saved);
  });
  const Json told = told_by_first(saved, group);
  TrainPlan plan = plan_of(told.at("plan"));
  const TrainedOn seen = trained_on(told.at("plan"), plan);
  const Wanted wanted = wanted_data(said, plan);

  AskedClassifier asked{.model = plan.options.model,
                        .data = wanted.data,
                        .split = said.split,
                        .checkpoint = told.at("folder").get<std::string>(),
                        .step = told.at("step").get<int64_t>(),
                        .device = device};
  if (told.at("averaged").get<bool>())
    asked.notes.emplace_back("the weights are the averages of --ema-decay");
  DatasetPtr samples = wanted_split(said, wanted, plan);
  check_fits(wanted, samples->spec(), seen);
  check_class_names(told.at("plan"), samples->spec(), said_data(wanted.data, wanted.data_dir));
  if (wanted.is_own) note_content(said.split, plan, samples, asked.notes);
  if (wanted.is_elsewhere && said.split == "train")
    asked.notes.push_back(
        concat("all samples are asked about, those that a run holds out among them: ", kIfMoved));
  for (std::string& remark : samples->remarks()) asked.notes.push_back(std::move(remark));
  // An answer is one to the file that was asked about.
  data::ReadableSamples readable = data::without_substitutes(std::move(samples));
  samples = std::move(readable.samples);
  std::ranges::move(readable.remarks, std::back_inserter(asked.notes));
  asked.file_of = data::file_names(samples);
  check_same_samples(*samples, "--data " + wanted.data, group);

  const data::DataSpec spec =
      data::transformed_spec(*samples, data::parse_transforms(plan.options.train_transform));
  asked.is_regression = plan.target_scale.has_value();
  plan.model_shape =
      input_shape(models::models().at(plan.model_name), spec, plan.data_name, asked.is_regression);
  asked.samples = as_model_sees(samples, plan.options.eval_transform, plan.model_shape);
  asked.task = make_seeded(classifier_maker(plan, /*is_resumed=*/true), plan.options.seed);
  load_asked(*asked.task, device, told, std::move(saved), group);
  asked.options = asked_options(said, around, told, plan.precision.kind);
  return asked;
}

}  // namespace muster::train
