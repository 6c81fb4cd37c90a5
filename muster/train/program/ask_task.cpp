#include "muster/train/program/ask_task.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader.h"
#include "muster/distributed/process_group.h"
#include "muster/formats/crc32.h"
#include "muster/train/checkpoints/saved_weights.h"
#include "muster/train/loop/asked_run.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/first_rank.h"
#include "muster/train/loop/predict.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/program/rows_csv.h"

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
void note_other_content(const Json& record, const std::string& split, const data::Dataset& now) {
  const std::string before = record.value(split + "_fingerprint", "");
  const std::string own = formats::crc32_text(now.fingerprint());
  if (before.empty() || before == own) return;
  std::cerr << "the " << split
            << " samples have other content than when the run began (fingerprint " << own
            << ", before " << before << "): the numbers cannot be compared with the run's\n";
}

void check_task_name(const Task& task, const Json& told, const fs::path& run) {
  const Json& before = told.at("task");
  if (before == task.name()) return;
  throw usage_error(
      {.refused = run.string(),
       .rule = concat("the run is one of this program's task, ", task.name()),
       .value = concat("task ", before.is_string() ? before.get<std::string>() : "?")});
}

int64_t workers_of(const AskOptions& ask, const std::optional<RankEnv>& env) {
  if (ask.workers >= 0) return ask.workers;
  return data::default_workers(std::max<int64_t>(1, std::thread::hardware_concurrency()),
                               env ? env->local_world_size : 1);
}

void print_evaluation(const Evaluation& seen, const Json& about, bool json) {
  if (json) {
    Json all = about;
    for (const auto& [name, value] : seen.metrics) all[name] = value;
    std::cout << json_text(all) << '\n' << std::flush;
    return;
  }
  for (const auto& [name, value] : seen.metrics)
    std::cout << name << ' ' << fixed(value, 4) << '\n';
  for (const auto& [name, text] : seen.report.lines) std::cout << name << ' ' << text << '\n';
  std::cout << std::flush;
}

/// Rank 0 writes; the file appears when it is whole.
void write_predictions(Task& task,
                       const Samples& samples,
                       const distributed::ProcessGroup& group,
                       const EvaluateOptions& options,
                       const fs::path& output) {
  std::unique_ptr<AtomicFile> file;
  on_first_rank(group, [&] {
    if (output != "-") file = std::make_unique<AtomicFile>(output);
  });
  RowsCsv csv([&](std::string_view text) {
    if (file) {
      file->write(text);
    } else {
      std::cout << text << std::flush;
    }
  });
  predict(task, samples, group, options, [&](const PredictedRows& rows) { csv.add(rows); });
  if (file) file->commit();
}

}  // namespace

int ask_task(const TaskAskLine& line,
             const std::string& name,
             const std::vector<TaskProgram::Flag>& own,
             const std::function<TaskParts()>& make) {
  const AskOptions& ask = line.ask;
  if (ask.batch_size < 1) {
    throw usage_error(
        {.refused = "--batch-size", .rule = "at least 1", .value = std::to_string(ask.batch_size)});
  }
  const auto env = rank_env_from();
  const distributed::ProcessGroup group =
      distributed::init_process_group({.backend = ask.backend}, env);
  Checkpoint saved;  // on rank 0
  on_first_rank(group, [&] { saved = read_weights(ask.run, ask.weights); });
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
  if (first) note_other_content(record, ask.split, *samples);
  check_same_samples(*samples, name, group);
  load_on_all_ranks(*task->module(), group, [&] { return std::move(saved); });
  const auto [precision, params] = split_spec(trained.precision);
  const EvaluateOptions options{.batch_size = ask.batch_size,
                                .workers = workers_of(ask, env),
                                .precision = parse_precision(precision, params).kind,
                                .step = told.at("step").get<int64_t>(),
                                .epoch = told.at("epoch").get<int64_t>()};
  if (line.predicts) {
    write_predictions(*task, samples, group, options, line.output);
  } else {
    const Evaluation seen = evaluate(*task, samples, group, options);
    if (first)
      print_evaluation(seen,
                       {{"task", task->name()},
                        {"split", ask.split},
                        {"samples", samples->size()},
                        {"step", options.step},
                        {"checkpoint", told.at("folder")}},
                       line.json);
  }
  if (first)
    std::cerr << concat(
        name,
        " after step ",
        options.step,
        " on its ",
        samples->size(),
        ' ',
        ask.split,
        " samples",
        line.predicts && line.output != "-" ? "; predictions in " + line.output.string() : "",
        '\n');
  return 0;
}

}  // namespace muster::train
