// `muster study ask` and `muster study tell`: the searcher and the scheduler for a program that
// starts its trials itself.
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"
#include "muster/program/line/value.h"
#include "muster/tune/run/study.h"
#include "muster/tune/storage/storage.h"

#include "cli/command.h"
#include "cli/line/app.h"
#include "cli/line/reported_checkpoint.h"
#include "cli/line/tune_flags.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

const char* const kAskExamples =
    "Examples:\n"
    "  muster study ask study.toml\n"
    "  muster study ask study.toml --count 4 --storage shared.db\n"
    "\n"
    "Prints one JSON object per line:\n"
    "  {\"attempt\":1,\"number\":3,\"params\":{\"lr\":0.01},\"study_began\":1790000000.25}\n"
    "with \"resume_from\" for a trial that goes on from a checkpoint. The study is made\n"
    "if it is not there; a tuner and others may ask at the same time. A trial that is\n"
    "told nothing for `ask_lease` of the study file, a day, is given to the next.\n"
    "Exit code 1: there is nothing to run now; 0 otherwise.";

const char* const kTellExamples =
    "Examples:\n"
    "  muster study tell study.toml 3 accuracy=0.91 --step 4\n"
    "  muster study tell study.toml 3 accuracy=0.93 --end\n"
    "  muster study tell study.toml 3 --failed 'out of disk'\n"
    "\n"
    "Prints what the trial is to do: continue, pause or stop; exits 0, 4 or 3, as\n"
    "`muster report` does. After pause and stop the trial counts as ended. With\n"
    "--json an object on stdout: {\"action\":\"continue\",\"reason\":\"\"}. --attempt and\n"
    "--study-began as `ask` said them keep a program that comes too late from\n"
    "speaking for the next attempt, or for a trial of a study that was deleted and\n"
    "made anew.";

constexpr int kStop = 3, kPause = 4;

struct AskFlags {
  std::string file, storage;
  int64_t count = 1;
};

struct TellFlags {
  std::string file, storage;
  int64_t number = -1;
  std::vector<std::string> metrics;
  std::optional<int64_t> step, attempt;
  std::optional<double> study_began;
  std::string checkpoint, failed;
  bool end = false, json = false;
};

void add_study(CLI::App& app, std::string& file, std::string& storage) {
  program::add_value(app, "study", file, "study file: .toml, or a W&B sweep .yaml")
      ->type_name("FILE")
      ->required();
  program::add_value(app, "--storage", storage, "SQLite file [the study's]")->type_name("FILE");
}

/// A call waits that long before it says what for.
constexpr double kSayWaitS = 1;

/// Waits for those who lock the storage, and says so.
template <class Act>
auto patiently(const tune::StudySpec& spec, program::Console& console, Act act) {
  return tune::wait_for_lock(
      spec.storage_patience_s, [&](const std::string& line) { console.note(line); }, act);
}

tune::StudyOptions options_of(program::Console& console, bool suggests) {
  return {.tuner = false,
          .suggests = suggests,
          .outlines = true,
          .lock_patience_s = kSayWaitS,
          .note = [&console](const std::string& line) { console.note(line); }};
}

/// Why there is nothing to run now.
void say_why_none(tune::StudyCore::Next::Kind kind,
                  tune::Study& study,
                  const tune::StudySpec& spec,
                  program::Console& console) {
  using Next = tune::StudyCore::Next;
  study.look([&](const tune::StudyCore& core) {
    if (!core.has_given_up()) {
      console.note(kind == Next::kFinished ? "nothing to run: the study is over"
                   : kind == Next::kHeld
                       ? "nothing to run now: all that is left is paused by a user"
                       : "nothing to run now: more may come when trials that run have ended");
      return;
    }
    console.error(concat("given up: ",
                         core.stop_reason(),
                         "\nhint: mend it, then `muster study restart ",
                         spec.storage.string(),
                         " --study ",
                         program::shell_word(spec.name),
                         "`"));
  });
}

struct Asked {
  std::optional<Json> trial;  ///< nothing: none can be started now
  tune::StudyCore::Next::Kind kind = tune::StudyCore::Next::kStart;
};

/// Starts the next trial of the study.
Asked start_one(tune::Study& study,
                const tune::Space& space,
                bool elsewhere,
                std::function<void()>& think) {
  return study.apply([&](tune::StudyCore& core, double now_s) -> Asked {
    auto next = core.next(now_s, /*asked=*/true, elsewhere, [](const std::string& checkpoint) {
      std::error_code error;
      return std::filesystem::exists(checkpoint, error);
    });
    think = std::move(next.think);
    if (next.kind != tune::StudyCore::Next::kStart) return {.kind = next.kind};
    const tune::Trial& trial = core.trials()[static_cast<size_t>(next.trial)];
    Json json{{"attempt", trial.attempt},
              {"number", trial.number},
              {"params", tune::to_json(space, trial.values)}};
    if (!trial.checkpoint.empty()) json["resume_from"] = trial.checkpoint;
    if (const auto began_s = core.began_s()) json["study_began"] = *began_s;
    return {.trial = std::move(json)};
  });
}

/// The searcher thinks between transactions, so that others go on meanwhile; but if they are always
/// faster, in one.
Asked ask_one(tune::Study& study, const tune::Space& space) {
  constexpr int kTries = 3;
  std::function<void()> think;
  for (int i = 0;; ++i) {
    auto started = start_one(study, space, /*elsewhere=*/i < kTries, think);
    if (!think) return started;
    think();
  }
}

/// "accuracy=0.9" as a metric.
std::pair<std::string, double> metric_of(const std::string& word) {
  const size_t equals = word.find('=');
  const auto value = equals == std::string::npos || equals == 0
                         ? std::nullopt
                         : to_double(std::string_view(word).substr(equals + 1));
  if (!value) {
    throw usage_error({.refused = "metric of `muster study tell`",
                       .rule = "NAME=NUMBER",
                       .value = word,
                       .hint = "muster study tell study.toml 3 accuracy=0.91"});
  }
  if (word.substr(0, equals) == "step") {
    throw usage_error({.refused = "step is no metric of `muster study tell`",
                       .rule = "it is an option",
                       .value = word,
                       .hint = "--step N"});
  }
  return {word.substr(0, equals), *value};
}

Error not_asked(int64_t number, std::string why) {
  return usage_error({.refused = concat("nothing can be told of trial ", number),
                      .rule = "`muster study ask` gave it out, and it has not ended",
                      .value = std::move(why)});
}

/// "it is COMPLETE", "it is run by the tuner": why nobody may speak for the trial.
std::string why_not(const tune::StudyCore& core, const TellFlags& flags) {
  if (flags.number < 0 || flags.number >= static_cast<int64_t>(core.trials().size()))
    return concat("the study has ", trials_text(core.trials().size()));
  const tune::Trial& trial = core.trials()[static_cast<size_t>(flags.number)];
  if (core.is_asked(flags.number))
    return concat("attempt ", trial.attempt, " was given out after that one");
  if (trial.state == tune::TrialState::kRunning) return "it is run by the tuner";
  if (trial.state == tune::TrialState::kPaused)
    return "it is PAUSED, until `muster study ask` gives it out once more";
  if (trial.state == tune::TrialState::kPending)
    return "it waits until `muster study ask` gives it out once more";
  return concat("it is ", tune::optuna_name(trial.state));
}

/// As `ask` prints it, which shown_value() may end with another digit.
std::string began_text(double began_s) { return concat("began at ", json_text(Json(began_s))); }

/// Numbers of a study that was deleted and made anew begin anew.
void check_same_study(const tune::StudyCore& core, const TellFlags& flags) {
  if (!flags.study_began || flags.study_began == core.began_s()) return;
  const auto began_s = core.began_s();
  throw usage_error(
      {.refused = concat("nothing can be told of trial ", flags.number),
       .rule = concat("the study ",
                      began_text(*flags.study_began),
                      ", when `muster study ask` gave the trial out"),
       .value = began_s ? "it " + began_text(*began_s) : std::string("it has not begun"),
       .hint = "it was deleted and made anew, or is another of this name: ask again"});
}

void check_asked(const tune::StudyCore& core, const TellFlags& flags) {
  const bool asked = core.is_asked(flags.number);
  if (asked && (!flags.attempt ||
                *flags.attempt == core.trials()[static_cast<size_t>(flags.number)].attempt))
    return;
  throw not_asked(flags.number, why_not(core, flags));
}

/// Reports without a step are counted, and what a further attempt repeats is not in the log: the
/// next process that tells would count anew.
void check_step(const tune::StudyCore& core, const TellFlags& flags) {
  const tune::Trial& trial = core.trials()[static_cast<size_t>(flags.number)];
  if (flags.metrics.empty() || flags.step || trial.attempt == 1 || trial.reports == 0) return;
  throw usage_error({.refused = concat("a report of trial ", flags.number, " without a step"),
                     .rule = concat("it goes on in attempt ", trial.attempt, ", so it says where"),
                     .hint = concat("--step N; its last one was ", trial.last_t)});
}

/// A trial without a result would fail, and `--failed` says so and why.
void check_result(const tune::StudyCore& core, const TellFlags& flags) {
  const tune::Trial& trial = core.trials()[static_cast<size_t>(flags.number)];
  if (!flags.end || !flags.failed.empty() || !flags.metrics.empty() || trial.reports > 0) return;
  throw usage_error({.refused = concat("the end of trial ", flags.number),
                     .rule = "it has reported something before, or does now",
                     .hint = concat("muster study tell STUDY ",
                                    flags.number,
                                    ' ',
                                    core.spec().metric,
                                    "=VALUE --end, or --failed WHY")});
}

/// A trial may fail though nobody says so: one that ends without a number of some objective.
void say_failed(tune::Study& study, const TellFlags& flags, program::Console& console) {
  if (!flags.failed.empty()) return;
  study.look([&](const tune::StudyCore& core) {
    const tune::Trial& trial = core.trials()[static_cast<size_t>(flags.number)];
    if (trial.state == tune::TrialState::kFailed)
      console.note(concat("trial ", flags.number, " has failed: ", trial.reason));
  });
}

/// Of a trial that was over before the outline that the core is from: how it ended, the core does not
/// know (Note [Outlines]).
void check_not_over(tune::Study& study, const tune::StudySpec& spec, const TellFlags& flags) {
  const bool is_over = study.look([&](const tune::StudyCore& core) {
    const auto count = static_cast<int64_t>(core.trials().size());
    if (flags.number < 0 || flags.number >= count || core.knows(flags.number)) return false;
    check_same_study(core, flags);
    return true;
  });
  if (!is_over) return;
  const auto end = tune::read_end_of_trial(spec.storage, spec.name, flags.number);
  throw not_asked(flags.number,
                  concat("it is ", end ? tune::optuna_name(*end) : std::string_view("over")));
}

tune::Decision tell(tune::StudyCore& core, const TellFlags& flags, double now_s) {
  check_same_study(core, flags);
  check_asked(core, flags);
  check_step(core, flags);
  check_result(core, flags);
  tune::Decision decision;
  if (!flags.metrics.empty()) {
    tune::Report report{.step = flags.step, .checkpoint = flags.checkpoint};
    for (const std::string& word : flags.metrics) report.metrics.push_back(metric_of(word));
    decision = core.report(flags.number, report, now_s);
  }
  if (!flags.failed.empty()) {
    core.ended(flags.number, tune::Failure::kCrash, flags.failed, now_s);
  } else if (flags.end || decision.action != tune::Action::kContinue) {
    core.ended(flags.number, tune::Failure::kNone, "", now_s);
  }
  return decision;
}

}  // namespace

int study_ask(std::span<const std::string> args, program::Console& console) {
  AskFlags flags;
  auto app = make_app("study ask",
                      "Take the next trials of a study, to be run by the caller.",
                      kAskExamples,
                      "muster study ask STUDY [OPTIONS]");
  add_study(*app, flags.file, flags.storage);
  program::add_value(*app, "--count", flags.count, "trials")->type_name("N")->capture_default_str();
  if (const auto done = program::parse(*app, args, console)) return *done;
  if (flags.count < 1) {
    throw usage_error(
        {.refused = "--count", .rule = "at least 1", .value = std::to_string(flags.count)});
  }
  const tune::StudySpec spec = study_of_file(flags.file, flags.storage);
  tune::Study study(spec, &tune::wall_clock_s, {}, options_of(console, /*suggests=*/true));
  for (int64_t i = 0; i < flags.count; ++i) {
    const Asked asked = patiently(spec, console, [&] { return ask_one(study, spec.space); });
    if (!asked.trial) {
      say_why_none(asked.kind, study, spec, console);
      return i == 0 ? kFailed : kDone;
    }
    console.out() << json_text(*asked.trial) << '\n';
  }
  return kDone;
}

int study_tell(std::span<const std::string> args, program::Console& console) {
  TellFlags flags;
  auto app = make_app("study tell",
                      "Tell a study what a trial that was asked for has reached, or that it ended.",
                      kTellExamples,
                      "muster study tell STUDY NUMBER [METRIC=VALUE…] [OPTIONS]");
  add_study(*app, flags.file, flags.storage);
  program::add_value(*app, "number", flags.number, "the trial")->type_name("NUMBER")->required();
  program::add_value(*app, "metrics", flags.metrics, "what it reports")->type_name("METRIC=VALUE");
  program::add_value(*app, "--step", flags.step, "the time attribute [reports are counted]")
      ->type_name("N");
  program::add_value(*app, "--checkpoint", flags.checkpoint, "of the state at this report")
      ->type_name("PATH");
  app->add_flag("--end", flags.end, "the trial is over");
  program::add_value(
      *app, "--attempt", flags.attempt, "which attempt speaks [the one that was asked for]")
      ->type_name("N");
  program::add_value(*app,
                     "--study-began",
                     flags.study_began,
                     "of which study the trial is, as `ask` said it [the one of this name]")
      ->type_name("TIME");
  app->add_flag("--json", flags.json, "for a script");
  program::add_value(*app, "--failed", flags.failed, "the trial failed, and why")->type_name("WHY");
  if (const auto done = program::parse(*app, args, console)) return *done;
  if (flags.step && *flags.step < 0) {  // as `muster report`
    throw usage_error({.refused = "--step",
                       .rule = "a whole number of at least 0",
                       .value = std::to_string(*flags.step)});
  }
  if (flags.metrics.empty() && !flags.end && flags.failed.empty()) {
    throw usage_error({.refused = "muster study tell without anything to tell",
                       .rule = "METRIC=VALUE, --end or --failed WHY",
                       .hint = "see `muster study tell --help`"});
  }
  flags.checkpoint = reported_checkpoint(flags.checkpoint);
  const tune::StudySpec spec = study_of_file(flags.file, flags.storage);
  tune::require_study(spec.storage, spec.name);  // telling makes none
  tune::Study study(spec, &tune::wall_clock_s, nullptr, options_of(console, /*suggests=*/false));
  check_not_over(study, spec, flags);
  const tune::Decision decision = patiently(spec, console, [&] {
    return study.apply(
        [&](tune::StudyCore& core, double now_s) { return tell(core, flags, now_s); });
  });
  say_failed(study, flags, console);
  if (flags.json) {
    console.out() << json_text(Json{{"action", tune::name_of(decision.action)},
                                    {"reason", decision.reason}})
                  << '\n';
  } else {
    console.out() << tune::name_of(decision.action) << '\n';
    if (!decision.reason.empty()) console.note(decision.reason);
  }
  if (decision.action == tune::Action::kStop) return kStop;
  return decision.action == tune::Action::kPause ? kPause : kDone;
}

}  // namespace muster::cli
