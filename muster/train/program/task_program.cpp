#include "muster/train/program/task_program.h"

#include <csignal>
#include <iostream>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/track/progress_pipe.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/program/ask_task.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/task_flags.h"

namespace muster::train {
namespace {

/// The program as run_program() sees it.
class OfTask final : public Program {
 public:
  OfTask(std::string name,
         std::string program,
         TaskLine& line,
         const std::vector<TaskProgram::Flag>& own,
         const std::function<TaskParts()>& make)
      : name_(std::move(name)), program_(std::move(program)), line_(line), own_(own), make_(make) {}

  const FitOptions& options() const override { return line_.options; }
  void take_over(const Json& record) override {
    train::take_over(record, line_.said, line_.options);
    take_own_values(record.value(kOwnFlags, Json::object()), line_.said, own_);
  }
  FitPlan plan(const Surroundings& around, bool) override {
    parts_ = make_();
    FitPlan plan;
    plan.options = line_.options;
    // The task alone knows its metrics; of the loss alone one need not be made.
    std::vector<Metric> metrics;
    if (plan.options.monitor != "validate_loss")
      metrics = make_seeded(parts_.task, plan.options.seed)->metrics();
    static_cast<FitNumbers&>(plan) =
        resolve_fit(plan.options, around, parts_.data.facts(), metrics);
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
  std::string name_, program_;
  TaskLine& line_;
  const std::vector<TaskProgram::Flag>& own_;
  const std::function<TaskParts()>& make_;
  TaskParts parts_;
};

/// A rank that has failed says so, and then ends with its own exit code, though its launcher may
/// tell all ranks to end because of another one. See Note [Who was first].
int fail(const std::string& name, const std::string& text, int code) {
  if (process_environment("RANK")) {
    std::signal(SIGTERM, SIG_IGN);
    diagnose::note_failure(text);
  }
  std::cerr << name << ": error: " << text << '\n' << std::flush;
  return code;
}

}  // namespace

TaskProgram::TaskProgram(std::string name, std::string help)
    : name_(std::move(name)), help_(std::move(help)) {}

void TaskProgram::flag(const std::string& name, Value value, const std::string& help) {
  flags_.push_back({name, value, help});
}

int TaskProgram::run(int argc, const char* const* argv, const std::function<TaskParts()>& make) {
  const std::vector<std::string> words(argv, argv + argc);
  try {
    const std::vector<std::string> behind(words.begin() + 1, words.end());
    if (asks_run(behind)) {
      const TaskAskLine line = read_ask_line(behind, words[0], flags_);
      if (line.help.empty()) return ask_task(line, name_, flags_, make);
      std::cout << line.help << std::flush;
      return 0;
    }
    TaskLine line = read_task_line(behind, words[0], help_, options, flags_);
    if (!line.help.empty()) {
      std::cout << line.help << std::flush;
      return 0;
    }
    track::ProgressPipe pipe;
    OfTask program(name_, words[0], line, flags_, make);
    const auto note = [](const std::string& text) { std::cerr << text << '\n' << std::flush; };
    const ProgramEnd end =
        run_program(program,
                    line.run,
                    {.print = [](const std::string& text) { std::cout << text << std::flush; },
                     .say = note,
                     .note = note,
                     .progress = [&](const track::ProgressEvent& event) { pipe.write(event); },
                     .finish_progress = {}},
                    run_facts(join(words, " ")),
                    devices);
    if (end.is_explained) return 0;
    if (end.is_first) note(end_text(end, words[0]));
    if (end.result.interrupted) return 130;
    if (end.is_first && !end.result.test.metrics.empty())
      std::cout << "test " << text_of(end.result.test.metrics) << '\n' << std::flush;
    return 0;
  } catch (const Error& error) {
    return fail(name_, error.what(), error.exit_code());
  } catch (const c10::Error& error) {  // without its forty lines of addresses
    return fail(name_, concat("LibTorch: ", error.what_without_backtrace()), 1);
  } catch (const std::exception& error) {
    return fail(name_, error.what(), 1);
  }
}

}  // namespace muster::train
