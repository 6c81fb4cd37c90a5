// `muster train`: trains a model of the zoo, alone or as one rank of a job.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/metric_text.h"
#include "muster/base/params.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/formats/dataset_spec.h"
#include "muster/program/config/config_file.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/said.h"
#include "muster/program/line/shell_word.h"
#include "muster/program/screen/reporter.h"
#include "muster/train/classifier/trainer.h"
#include "muster/train/classifier/validation_split.h"
#include "muster/train/program/as_rank.h"
#include "muster/train/program/end_with.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/told_words.h"

#include "cli/command.h"
#include "cli/line/train_flags.h"
#include "cli/torch/device_kinds.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

int report_result(const train::ProgramEnd& end, bool json, program::Console& console) {
  const train::FitResult& result = end.result;
  if (result.interrupted) {
    console.note(train::end_text(end, "muster train"));
    return kInterrupted;
  }
  const train::Metrics& test = result.test.metrics;  // empty without a test
  if (json) {
    console.out() << json_text(train::json_of(end)) << '\n' << std::flush;
  } else {
    console.note(train::end_text(end, "muster train"));
    const double* rmse = test.find("rmse");
    if (!test.empty())
      console.out() << (rmse != nullptr ? concat("test rmse ", metric_text(*rmse))
                                        : concat("test accuracy ", fixed(test["accuracy"], 4)))
                    << '\n'
                    << std::flush;
  }
  return kDone;
}

/// Where the numbers of a run come from, for its page.
std::vector<std::pair<std::string, std::string>> facts_of(std::span<const std::string> args) {
  std::string command = "muster train";
  for (const std::string& word : args) command += ' ' + program::shell_word(word);
  return train::run_facts(command);
}

/// Before options of another program's run are taken for ours.
void check_is_ours(const Json& record) {
  const std::string own = record.value("program", "");
  if (own.empty()) return;
  throw usage_error(
      {.refused = "--resume",
       .rule = "a run goes on by the program that began it",
       .value = "a run of " + own,
       .hint = concat("go on with it by ", own, ", or begin a new run in another folder")});
}

/// What `muster train` trains.
class Classifying final : public train::Program {
 public:
  Classifying(train::TrainOptions options,
              const CLI::App& app,
              std::span<const program::ConfigKey> keys,
              std::span<const program::ConfigPlace> places,
              std::function<void(const std::string&)> note)
      : options_(std::move(options)),
        app_(app),
        keys_(keys),
        off_(program::said_off(app, places)),
        note_(std::move(note)) {
    options_.data = formats::with_whole_path(options_.data);
  }

  const train::FitOptions& options() const override { return options_; }
  void take_over(const Json& record) override {
    check_is_ours(record);
    options_.validation_split = train::with_whole_path(options_.validation_split);
    std::vector<std::string> said = program::said_options(app_);
    said.insert(said.end(), off_.begin(), off_.end());
    train::take_over(record, said, options_);
    record_ = record;
  }

  train::FitPlan plan(const train::Surroundings& around, bool is_resumed) override {
    data_ = train::open_data(options_.data, options_.data_dir, train::learned_before(record_));
    plan_ = train::resolve(options_, around, *data_.train, *data_.test);
    plan_.remarks.insert(plan_.remarks.end(), data_.remarks.begin(), data_.remarks.end());
    if (!is_resumed) train::check_weights(plan_);
    const std::string said = train::said_data(options_.data, options_.data_dir);
    train::check_class_names(record_, plan_.spec, said);
    train::check_learned(record_, plan_.learned, said);
    return train::fit_plan(plan_);
  }
  std::string default_output() const override {
    return concat(
        parse_spec(options_.model).name, '-', data::parse_dataset_spec(options_.data).name);
  }
  /// What the datasets have to say that they had not at the start.
  std::vector<std::string> late_remarks() const {
    std::vector<std::string> late;
    for (const train::DatasetPtr& samples : {data_.train, data_.test}) {
      if (!samples) continue;
      for (std::string& remark : samples->remarks()) {
        const bool is_known = std::ranges::find(plan_.remarks, remark) != plan_.remarks.end() ||
                              std::ranges::find(late, remark) != late.end();
        if (!is_known) late.push_back(std::move(remark));
      }
    }
    // Ranks that are processes have each read their share, and say what was in that.
    if (plan_.threads == 0 && plan_.world_size > 1)
      for (std::string& remark : late) remark.insert(0, "of what this rank has read: ");
    return late;
  }
  train::FitData data() override { return train::split_data(plan_, data_); }
  train::TaskMaker task(bool is_resumed) override {
    return train::classifier_maker(plan_, is_resumed);
  }
  void folder_ready(const fs::path& output, bool is_resumed) override {
    train::keep_config(output,
                       is_resumed,
                       program::said_words(app_, train::kOfOneStart),
                       plan_.options,
                       train::TrainOptions(),
                       keys_,
                       note_);
  }

 private:
  train::TrainOptions options_;
  const CLI::App& app_;
  std::span<const program::ConfigKey> keys_;
  std::vector<std::string> off_;
  std::function<void(const std::string&)> note_;
  train::TrainData data_;
  train::TrainPlan plan_;
  Json record_ = Json::object();  // of the run that goes on
};

int train_command(std::span<const std::string> args,
                  program::Console& console,
                  std::vector<program::ConfigPlace>& places) {
  TrainFlags flags;
  const auto app = train_app(flags);
  const std::vector<program::ConfigKey> keys = program::config_keys(*app, train_config_kinds());
  if (const auto over = program::parse(*app, program::with_config(args, keys, &places), console))
    return *over;
  program::Reporter reporter(console, rank_env_from().has_value());
  const auto note = [&](const std::string& line) { reporter.note(line); };
  Classifying program(flags.train, *app, keys, places, note);
  const train::ProgramEnd end = train::run_program(
      program,
      flags.run,
      {.explain =
           [&](const train::FitPlan& plan) { train::print_plan(plan, flags.json, console.out()); },
       .say = [&](const std::string& text) { console.note(text); },
       .note = note,
       .progress = [&](const track::ProgressEvent& event) { reporter.progress(event); },
       .finish_progress = [&] { reporter.finish(); },
       .end_with = [&](const std::exception_ptr& error) { train::end_with(error, console); }},
      facts_of(args),
      device_kinds());
  if (end.is_explained) return kDone;
  for (const std::string& remark : program.late_remarks()) console.note(remark);
  if (!end.is_first) return end.result.interrupted ? kInterrupted : kDone;
  return report_result(end, flags.json, console);
}

int run_train_command(std::span<const std::string> args, program::Console& console) {
  return train::as_rank([&] {
    std::vector<program::ConfigPlace> places;
    try {
      return train_command(args, console, places);
    } catch (const Error& error) {
      throw program::placed(error, places, train_config_owners());
    }
  });
}

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run_train_command};

}  // namespace muster::cli
