#include "muster/train/program/ask_task.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/metric_text.h"
#include "muster/base/params.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/distributed/process_group.h"
#include "muster/formats/crc32.h"
#include "muster/train/loop/asked_run.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/predict.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/program/as_rank.h"
#include "muster/train/program/prediction_output.h"
#include "muster/train/program/rows_csv.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/task_flags.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using Samples = std::shared_ptr<const data::Dataset>;

Samples split_of(const FitData& data, const std::string& split) {
  const std::vector<std::string> known{"test", "train", "validation"};
  if (std::find(known.begin(), known.end(), split) == known.end()) {
    throw usage_error({.refused = "--split",
                       .rule = "test, train or validation",
                       .value = split,
                       .hint = suggestion(split, known)});
  }
  Samples samples = split == "test" ? data.test : split == "train" ? data.train : data.validation;
  if (samples && samples->size() > 0) return samples;
  throw usage_error({.refused = "--split " + split, .rule = "the program has no such samples"});
}

/// Whether the program's samples are what they were.
void note_other_content(const Json& record,
                        const std::string& split,
                        const data::Dataset& now,
                        program::Console& console) {
  const std::string before = record.value(split + "_fingerprint", "");
  const std::string own = formats::crc32_text(now.fingerprint());
  if (before.empty() || before == own) return;
  console.note(concat("the ",
                      split,
                      " samples have other content than when the run began (fingerprint ",
                      own,
                      ", before ",
                      before,
                      "): the numbers cannot be compared with the run's"));
}

void check_task_name(const Task& task, const Json& told, const fs::path& run) {
  const Json& before = told.at("task");
  if (before == task.name()) return;
  throw usage_error(
      {.refused = run.string(),
       .rule = concat("the run is one of this program's task, ", task.name()),
       .value = concat("task ", before.is_string() ? before.get<std::string>() : "?")});
}

void print_evaluation(const Evaluation& seen, const Json& about, bool json, std::ostream& out) {
  if (json) {
    Json all = about;
    for (const auto& [name, value] : seen.metrics) all[name] = value;
    out << json_text(all) << '\n' << std::flush;
    return;
  }
  for (const auto& [name, value] : seen.metrics) out << name << ' ' << metric_text(value) << '\n';
  for (const auto& [name, text] : seen.report.lines) out << name << ' ' << text << '\n';
  out << std::flush;
}

/// Rank 0 writes. False if a signal came, and nothing is written.
bool write_predictions(Task& task,
                       const Samples& samples,
                       const distributed::ProcessGroup& group,
                       const EvaluateOptions& options,
                       const fs::path& output,
                       std::ostream& out) try {
  if (group.rank() == 0) watch_prediction_signals();
  std::unique_ptr<PredictionOutput> lines;
  on_first_rank(group, [&] { lines = std::make_unique<PredictionOutput>(output, out); });
  RowsCsv csv([&](std::string_view text) { lines->write(text); });
  predict(task, samples, group, options, [&](const PredictedRows& rows) { csv.add(rows); });
  if (lines) lines->commit();
  return true;
} catch (const PredictionStopped&) {
  return false;
}

}  // namespace

int ask_task(const TaskAskLine& line,
             const std::string& name,
             const std::vector<TaskProgram::Flag>& own,
             const std::function<TaskParts()>& make,
             const tensor::DeviceKinds& kinds,
             program::Console& console) {
  const AskOptions& ask = line.ask;
  check_batch_size(ask);
  const auto env = rank_env_from();
  const Surroundings around = surroundings_of(env, kinds);
  const Placement placed = place_asked(ask, around);
  const c10::Device device = placed.devices[0];
  const c10::OptionalDeviceGuard on_device(device);
  const distributed::ProcessGroup group = distributed::init_process_group(
      group_options(ask.backend,
                    device,
                    line.predicts ? "predict" : "evaluate",
                    env,
                    [&](const std::string& text) { console.note(text); }),
      env);
  Checkpoint saved;  // on rank 0
  on_first_rank(group, [&] { saved = read_asked(ask); });
  const Json told = told_by_first(saved, group);
  const Json& record = told.at("plan");
  FitOptions trained;
  take_over(record, {}, trained);
  Json flags = record.value(kOwnFlags, Json::object());
  for (const std::string& said : line.said) flags.erase(said);
  take_own_values(flags, {}, own);

  const TaskParts parts = make();
  const Samples samples = split_of(parts.data, ask.split);
  const std::unique_ptr<Task> task = make_seeded(parts.task, trained.seed);
  check_task_name(*task, told, ask.run);
  const bool first = group.rank() == 0;
  for (const std::string& remark : placed.remarks)
    if (first) console.note(remark);
  if (first) note_other_content(record, ask.split, *samples, console);
  check_same_samples(*samples, "the samples of " + name, group);
  load_asked(*task, device, told, std::move(saved), group);
  const auto [precision, params] = parse_spec(trained.precision);
  const EvaluateOptions options =
      asked_options(ask, around, told, parse_precision(precision, params).kind);
  if (line.predicts) {
    if (!write_predictions(*task, samples, group, options, line.output, console.out())) {
      console.note("interrupted: nothing is written");
      return kInterrupted;
    }
  } else {
    const Evaluation seen = evaluate(*task, samples, group, options);
    if (first)
      print_evaluation(seen,
                       {{"task", task->name()},
                        {"split", ask.split},
                        {"samples", samples->size()},
                        {"step", options.step},
                        {"checkpoint", told.at("folder")}},
                       line.json,
                       console.out());
  }
  if (first)
    console.note(concat(
        name,
        " after step ",
        options.step,
        " on its ",
        samples->size(),
        ' ',
        ask.split,
        " samples",
        line.predicts && line.output != "-" ? "; predictions in " + line.output.string() : ""));
  return 0;
}

}  // namespace muster::train
