#include "muster/train/program/task_program.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/path_names.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/memory/guard/oom.h"
#include "muster/program/line/shell_word.h"
#include "muster/program/rank_failure.h"
#include "muster/program/screen/reporter.h"
#include "muster/tensor/what_of.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/program/as_rank.h"
#include "muster/train/program/ask_flags.h"
#include "muster/train/program/ask_task.h"
#include "muster/train/program/end_with.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/task_flags.h"

namespace muster::train {
namespace {

/// Errors of ours, and of files, say themselves what is wrong.
TaskParts made_by(const std::function<TaskParts()>& make) {
  try {
    return make();
  } catch (const Error&) {
    throw;
  } catch (const std::filesystem::filesystem_error&) {
    throw;
  } catch (const std::exception&) {
    if (memory::is_oom(std::current_exception())) throw;
    tensor::throw_behind("the program's data and task cannot be made");
  }
}

/// The program as run_program() sees it.
class OfTask final : public Program {
 public:
  OfTask(std::string name,
         std::string program,
         TaskLine& line,
         const std::vector<TaskProgram::Flag>& own,
         const std::function<TaskParts()>& make,
         std::function<void(const std::string&)> note)
      : name_(std::move(name)),
        program_(std::move(program)),
        line_(line),
        own_(own),
        make_(make),
        note_(std::move(note)) {}

  const FitOptions& options() const override { return line_.options; }
  void take_over(const Json& record) override {
    resumed_ = record;
    if (!record.contains(kOwnFlags)) refuse_run("`muster train`");
    train::take_over(record, line_.said(), line_.options);
    take_own_values(record.value(kOwnFlags, Json::object()), line_.said(), own_);
  }
  void folder_ready(const std::filesystem::path& output, bool is_resumed) override {
    line_.keep_config(output, is_resumed, note_);
  }
  FitPlan plan(const Surroundings& around, bool is_resumed) override {
    parts_ = make_();
    FitPlan plan;
    plan.options = line_.options;
    // The task alone knows its metrics; of the loss alone one need not be made.
    std::vector<Metric> metrics;
    const bool has_plateau = plan.options.lr_schedule.find("metric=") != std::string::npos;
    if (plan.options.monitor != "validate_loss" || has_plateau)
      metrics = make_seeded(parts_.task, plan.options.seed)->metrics();
    if (is_resumed) check_is_own_run(plan.options.monitor, metrics);
    static_cast<FitNumbers&>(plan) = resolve_fit(plan.options, around, facts(), metrics);
    plan.title = name_;
    plan.record = to_json(plan.options, plan);
    plan.record[kOwnFlags] = own_values(own_);
    plan.record[kOwnProgram] = program_;
    for (const auto& [flag, value] : plan.record[kOwnFlags].items())
      plan.explained += explained_line(flag, json_text(value));
    plan.explained += explain(plan.options, plan, "the task's");
    return plan;
  }
  std::string default_output() const override { return name_; }
  FitData data() override { return parts_.data; }
  TaskMaker task(bool) override { return parts_.task; }
  void add_hooks(FitCallbacks& callbacks) override {
    callbacks.epoch_began = parts_.hooks.epoch_began;
    callbacks.step_ended = parts_.hooks.step_ended;
    callbacks.evaluated = parts_.hooks.evaluated;
    callbacks.saved = parts_.hooks.saved;
  }

 private:
  /// Reads samples, for their fingerprints.
  SplitFacts facts() const {
    try {
      return parts_.data.facts();
    } catch (...) {
      tensor::throw_behind("the samples, at the start");
    }
  }

  [[noreturn]] static void refuse_run(const std::string& of, const std::string& besides = "") {
    throw usage_error(
        {.refused = "--resume",
         .rule = "a run goes on by the program that began it",
         .value = concat("a run of ", of, besides),
         .hint = concat("go on with it by ", of, ", or begin a new run in another folder")});
  }

  /// What another program's run was judged by this one's task may not have. Before that is refused.
  void check_is_own_run(const std::string& monitor, const std::vector<Metric>& metrics) const {
    const auto is_it = [&](const Metric& metric) { return monitor == "validate_" + metric.name; };
    if (monitor == "validate_loss" || std::any_of(metrics.begin(), metrics.end(), is_it)) return;
    if (resumed_.value("monitor", "") != monitor) return;  // said now
    refuse_run(resumed_.value(kOwnProgram, "another program"), ", which watches " + monitor);
  }

  std::string name_, program_;
  Json resumed_;  // the record of the run that goes on
  TaskLine& line_;
  const std::vector<TaskProgram::Flag>& own_;
  const std::function<TaskParts()>& make_;
  std::function<void(const std::string&)> note_;
  TaskParts parts_;
};

/// The end of a run, told. Returns the exit code.
int tell(const ProgramEnd& end, const TaskLine& line, program::Console& console) {
  if (end.is_explained) return 0;
  if (end.is_first && (!line.json || end.result.interrupted))
    console.note(end_text(end, line.title()));
  if (end.result.interrupted) return kInterrupted;
  if (!end.is_first) return 0;
  const Metrics& test = end.result.test.metrics;
  if (line.json)
    console.out() << json_text(json_of(end)) << '\n' << std::flush;
  else if (!test.empty())
    console.out() << "test " << text_of(test) << '\n' << std::flush;
  return 0;
}

}  // namespace

TaskProgram::TaskProgram(std::string name, std::string help)
    : name_(std::move(name)), help_(std::move(help)) {}

void TaskProgram::flag(const std::string& name, Value value, const std::string& help) {
  flags_.push_back({name, value, help});
}

int TaskProgram::run(int argc, const char* const* argv, const std::function<TaskParts()>& make) {
  const std::function<TaskParts()> named = [&] { return made_by(make); };
  const std::vector<std::string> words(argv, argv + argc);
  const std::span<const std::string> behind = std::span(words).subspan(1);
  program::Console console = program::Console::of_process(name_);
  console.set_json_errors(std::find(behind.begin(), behind.end(), "--json") != behind.end());
  try {
    const auto work = [&] {
      return asks_run(behind) ? ask_run(words[0], behind, named, console)
                              : run_task(words[0], behind, named, console);
    };
    const int code = as_rank(work);
    console.finish_out();
    return code;
  } catch (const Error& error) {
    program::note_rank_failure(error.what());
    console.error(error);
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    const Error told = file_system_error(error);
    program::note_rank_failure(told.what());
    console.error(told);
    return told.exit_code();
  } catch (const std::exception& error) {
    program::note_rank_failure(error.what());
    console.error(error.what());
    return 1;
  } catch (...) {
    const char* what = "it threw something that is no std::exception";
    program::note_rank_failure(what);
    console.error(what);
    return 1;
  }
}

int TaskProgram::ask_run(const std::string& title,
                         std::span<const std::string> words,
                         const std::function<TaskParts()>& make,
                         program::Console& console) {
  TaskAskLine line;
  if (const auto over = read_ask_line(words, title, flags_, console, line)) return *over;
  return ask_task(line, name_, flags_, make, devices, console);
}

int TaskProgram::run_task(const std::string& title,
                          std::span<const std::string> words,
                          const std::function<TaskParts()>& make,
                          program::Console& console) {
  TaskLine line(title, help_, options, flags_);
  try {
    if (const auto over = line.read(words, console)) return *over;
    program::Reporter reporter(console, rank_env_from().has_value());
    const auto note = [&](const std::string& text) { reporter.note(text); };
    OfTask program(name_, title, line, flags_, make, note);
    std::string command = program::shell_word(title);
    for (const std::string& word : words) command += ' ' + program::shell_word(word);
    const ProgramEnd end = run_program(
        program,
        line.run,
        {.explain = [&](const FitPlan& plan) { print_plan(plan, line.json, console.out()); },
         .say = [&](const std::string& text) { console.note(text); },
         .note = note,
         .progress = [&](const track::ProgressEvent& event) { reporter.progress(event); },
         .finish_progress = [&] { reporter.finish(); },
         .end_with = [&](const std::exception_ptr& error) { end_with(error, console); }},
        run_facts(command),
        devices);
    return tell(end, line, console);
  } catch (const Error& error) {
    throw line.placed(error);
  }
}

}  // namespace muster::train
