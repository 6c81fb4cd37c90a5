// `muster study stop`, `pause`, `continue` and `add`: what a user wants of a study that runs.
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/value.h"
#include "muster/tune/execute/user_order.h"
#include "muster/tune/space/given_values.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

const char* const kPauseExamples =
    "Examples:\n"
    "  muster study pause fashion.db --trial 7\n"
    "  muster study continue fashion.db --trial 7\n"
    "\n"
    "What the trial reports next is answered `pause`: it ends, and its slot is free.\n"
    "It goes on from the checkpoint that it reported last, or begins anew if there is\n"
    "none. A trial that was asked for hears of it from `muster study tell`.\n";

const char* const kAddExamples =
    "Examples:\n"
    "  muster study add fashion.db lr=0.01 batch_size=8\n"
    "  muster study add fashion.db            all parameters are drawn\n";

/// Orders for single trials, of which each may be refused: the first refusal ends the command.
int order_trials(const StudyFlags& flags,
                 std::span<const int64_t> numbers,
                 tune::Action action,
                 program::Console& console) {
  const std::string name = tune::find_study(flags.storage, flags.study).name;
  for (const int64_t number : numbers) {
    const std::string said = tune::order_trial(flags.storage, name, number, action);
    if (flags.json) {
      console.out() << json_text(Json{{"study", name},
                                      {"trial", number},
                                      {"order", tune::name_of(action)},
                                      {"text", said}})
                    << '\n';
    } else {
      console.note(said);
    }
  }
  return kDone;
}

int pause_or_continue(std::span<const std::string> args,
                      program::Console& console,
                      tune::Action action,
                      const char* description) {
  StudyFlags flags;
  const auto app =
      study_app(std::string(tune::name_of(action)), description, kPauseExamples, flags);
  std::vector<int64_t> numbers;
  add_trial_numbers(*app, numbers, "which")->required();
  if (const auto done = program::parse(*app, args, console)) return *done;
  return order_trials(flags, numbers, action, console);
}

}  // namespace

int study_stop(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("stop",
                             "Asks the tuner that runs a study to stop, as Ctrl-C would: running "
                             "trials are ended, and the study can be resumed. With --trial it ends "
                             "that one alone, for good.",
                             "Examples:\n  muster study stop fashion.db\n"
                             "  muster study stop fashion.db --trial 7\n",
                             flags);
  std::vector<int64_t> numbers;
  add_trial_numbers(*app, numbers, "end only this trial");
  if (const auto done = program::parse(*app, args, console)) return *done;
  if (!numbers.empty()) return order_trials(flags, numbers, tune::Action::kStop, console);
  const std::string name = tune::find_study(flags.storage, flags.study).name;
  tune::request_stop(flags.storage, name);
  if (flags.json) {
    console.out() << json_text(Json{{"study", name}, {"trial", Json()}, {"stopping", true}})
                  << '\n';
  } else {
    console.note(concat("study \"", name, "\" is stopping"));
  }
  return kDone;
}

int study_pause(std::span<const std::string> args, program::Console& console) {
  return pause_or_continue(args,
                           console,
                           tune::Action::kPause,
                           "Asks the tuner that runs a study to pause a trial at its next report, "
                           "until `muster study continue`. The study does not end meanwhile.");
}

int study_continue(std::span<const std::string> args, program::Console& console) {
  return pause_or_continue(args,
                           console,
                           tune::Action::kContinue,
                           "Lets a trial that `muster study pause` paused go on, as soon as there "
                           "is room for it.");
}

int study_add(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("add",
                             "Adds a trial to a study, on top of num_samples. A tuner that runs "
                             "takes it when it has room, else the next one does. Parameters that "
                             "are not named are drawn.",
                             kAddExamples,
                             flags,
                             "[PARAMETER=VALUE…] ");
  std::vector<std::string> words;
  program::add_value(*app, "values", words, "a parameter's value")->type_name("PARAMETER=VALUE");
  if (const auto done = program::parse(*app, args, console)) return *done;
  const tune::StudySummary study = tune::find_study(flags.storage, flags.study);
  std::map<std::string, tune::Value> values;
  if (!study.description.is_null())  // else add_trial says why not
    values = values_of_words(tune::Space::from_description(study.description.at("space")), words);
  patiently(console, [&](double patience_s) {
    tune::add_trial(flags.storage, study.name, values, patience_s);
  });
  if (flags.json) {
    Json params = Json::object();
    for (const auto& [name, value] : values) params[name] = to_json(value);
    console.out() << json_text(Json{{"study", study.name}, {"added", std::move(params)}}) << '\n';
  } else {
    const bool runs = tune::running_tuner(flags.storage, study.name).has_value();
    console.note(runs ? "a trial is added: it starts when there is room"
                      : "a trial is added: the next tuner of the study runs it");
  }
  return kDone;
}

}  // namespace muster::cli
