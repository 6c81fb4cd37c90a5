// `muster tune`: runs a study, or goes on with it.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/event.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/execute/prepare.h"
#include "muster/tune/run/tuner.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/front_volume.h"
#include "muster/tune/views/history.h"

#include "cli/command.h"
#include "cli/line/tune_flags.h"
#include "cli/screen/live_table.h"
#include "cli/study/tune_check.h"
#include "cli/study/tune_sinks.h"

namespace muster::cli {
namespace {

// Signals wait no longer than that while another process writes; the tuner is patient by itself.
constexpr double kLockPatienceS = 1;

std::string words_of(const tune::Space& space, const tune::Values& values) {
  std::string words;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_none()) continue;
    words += concat(
        words.empty() ? "" : " ", space.parameters()[i].name, '=', tune::value_text(values[i]));
  }
  return words;
}

tune::ResourcePool resources_of(const tune::StudySpec& spec) {
  return tune::located(spec, "resources_per_trial", [&] {
    return tune::ResourcePool(tune::machine_of(spec), spec.resources_per_trial);
  });
}

/// The study may be for another machine: what this one has not is no error of a dry run.
void say_what_is_missing(const tune::StudySpec& spec, program::Console& console) try {
  resources_of(spec);
} catch (const Error& error) {
  console.note(concat("on this machine the study would be refused: ", error.what()));
}

/// The configurations that the study would begin with, each as if the ones before ran for ever.
int dry_run(const TuneFlags& flags, program::Console& console) {
  say_what_is_missing(flags.spec, console);
  tune::StudyCore core(flags.spec);
  console.err() << core.scheduler_status() << '\n';
  const std::string introduction = core.searcher_introduction();
  if (!introduction.empty()) console.err() << introduction << '\n';
  for (int64_t i = 0; i < *flags.dry_run; ++i) {
    const auto next = core.next(0);
    if (next.kind != tune::StudyCore::Next::kStart) break;
    const tune::Trial& trial = core.trials()[static_cast<size_t>(next.trial)];
    if (flags.json) {
      console.out() << json_text(tune::to_json(flags.spec.space, trial.values)) << '\n';
    } else {
      console.out() << "trial " << trial.number << "  " << words_of(flags.spec.space, trial.values)
                    << '\n';
    }
  }
  return kDone;
}

bool has_begun(const tune::StudySpec& spec) {
  if (!std::filesystem::exists(spec.storage)) return false;
  const auto studies = tune::studies_of(spec.storage);
  return std::ranges::any_of(studies, [&](const auto& study) { return study.name == spec.name; });
}

/// What searcher and scheduler do in the study, or have done if it has begun.
int explain(const tune::StudySpec& spec, program::Console& console) {
  tune::StudyCore core(spec);
  if (has_begun(spec)) {
    tune::read_events(spec.storage, spec.name, [&](std::span<const tune::Event> past) {
      for (const tune::Event& event : past) core.replay(event);
    });
  }
  const std::string_view help = tune::searchers().at(parse_spec(spec.searcher).name).help;
  console.out() << "searcher " << spec.searcher << ": " << help << '\n';
  const std::string introduction = core.searcher_introduction();
  if (!introduction.empty()) console.out() << introduction << '\n';
  console.out() << "scheduler " << core.scheduler_status() << '\n';
  return kDone;
}

/// The best trial of all: of ours, or one that Optuna added to the study.
struct BestTrial {
  std::string name;  ///< "7", "o7" of Optuna's
  Json number;
  double value = 0;
  std::string words;
  Json params;
  std::string checkpoint;
};

std::optional<BestTrial> best_of_ours(const tune::StudyCore& core) {
  const tune::Trial* trial = core.best();
  if (trial == nullptr) return std::nullopt;
  const tune::Space& space = core.spec().space;
  return BestTrial{.name = std::to_string(trial->number),
                   .number = trial->number,
                   .value = core.result(*trial),
                   .words = words_of(space, trial->values),
                   .params = tune::to_json(space, trial->values),
                   .checkpoint = trial->checkpoint};
}

/// As `muster study best` has it: ours where both are as good.
std::optional<BestTrial> best_of_all(const tune::StudyCore& core) try {
  auto best = best_of_ours(core);
  const tune::StudySpec& spec = core.spec();
  const tune::StudyFacts facts = tune::facts_of(spec);
  const auto foreign = histories(tune::read_foreign_trials(spec.storage, spec.name), facts);
  const tune::TrialHistory* other = best_of(foreign, facts);
  if (other == nullptr) return best;
  const double value = result_of(*other, facts);
  if (best && score_of(best->value, spec.mode) >= score_of(value, spec.mode)) return best;
  return BestTrial{.name = trial_label(*other),
                   .number = trial_id(*other),
                   .value = value,
                   .words = words_of(spec.space, other->values),
                   .params = config_of(*other, facts),
                   .checkpoint = ""};
} catch (const Error&) {
  return best_of_ours(core);  // the file is gone by now
}

tune::FrontVolume volume_of(const tune::StudyCore& core) {
  std::vector<std::vector<double>> results;
  for (const tune::Trial& trial : core.trials()) {
    if (trial.state == tune::TrialState::kComplete && trial.goals.is_feasible())
      results.push_back(trial.goals.results);
  }
  return tune::front_volume(results, core.spec().goals.objectives);
}

Json result_json(const tune::StudyCore& core,
                 const tune::TunerOutcome& outcome,
                 const std::optional<BestTrial>& winner) {
  Json counts = Json::object();
  for (const tune::Trial& trial : core.trials()) {
    Json& count = counts[std::string(tune::optuna_name(trial.state))];
    count = count.is_null() ? 1 : count.get<int64_t>() + 1;
  }
  Json best = nullptr;
  if (core.spec().goals.several()) {
    best = Json::array();
    for (const int64_t number : core.front()) {
      const tune::Trial& trial = core.trials()[static_cast<size_t>(number)];
      best.push_back({{"number", number},
                      {"params", tune::to_json(core.spec().space, trial.values)},
                      {"checkpoint", trial.checkpoint}});
      for (size_t i = 0; i < trial.goals.results.size(); ++i)
        best.back()["values"][core.spec().goals.objectives[i].metric] = trial.goals.results[i];
    }
  } else if (winner) {
    best = {{core.spec().metric, winner->value}};  // under its own name where that is free
    best["number"] = winner->number;
    best["metric"] = core.spec().metric;
    best["value"] = winner->value;
    best["params"] = winner->params;
    best["checkpoint"] = winner->checkpoint;
  }
  Json json = {{"study", core.spec().name},
               {"storage", core.spec().storage.string()},
               {"trials", std::move(counts)},
               {"interrupted", outcome.interrupted},
               {"stopped", outcome.stopped.empty() ? Json() : Json(outcome.stopped)},
               {core.spec().goals.several() ? "best_trials" : "best", std::move(best)}};
  const auto& objectives = core.spec().goals.objectives;
  if (core.spec().goals.several()) add_json(volume_of(core), objectives, json);
  return json;
}

/// The last words, on stdout: what a script reads.
int conclude(const tune::StudyCore& core,
             const tune::TunerOutcome& outcome,
             const TuneFlags& flags,
             program::Console& console) {
  const auto best = best_of_all(core);
  if (flags.json) {
    console.out() << json_text(result_json(core, outcome, best)) << '\n';
  } else if (!core.front().empty()) {
    for (const int64_t number : core.front()) {
      const tune::Trial& trial = core.trials()[static_cast<size_t>(number)];
      console.out() << "front " << results_text(trial.goals.results, core.spec().goals.objectives)
                    << " trial " << number << ' ' << words_of(core.spec().space, trial.values)
                    << '\n';
    }
  } else if (best) {
    console.out() << "best " << core.spec().metric << ' ' << shortest(best->value) << " trial "
                  << best->name << ' ' << best->words << '\n';
  }
  if (outcome.interrupted) return kInterrupted;
  if (outcome.failed) {
    console.error(concat("given up: ", outcome.stopped));
    return kFailed;
  }
  if (best || !core.front().empty()) return kDone;
  console.error(core.spec().goals.constraints.empty()
                    ? "no trial ended with a result"
                    : "no trial ended with a result within the constraints");
  return kFailed;
}

const tune::ExecutorEntry& executor_of(const TuneFlags& flags) {
  return tune::located(flags.spec, "executor", [&]() -> const tune::ExecutorEntry& {
    return tune::executors().at(flags.executor);
  });
}

int64_t starts_among(std::span<const tune::Event> events) {
  return std::ranges::count_if(events, [](const tune::Event& event) {
    return std::holds_alternative<tune::AttemptStarted>(event.what);
  });
}

int tune_shown(const TuneFlags& flags, program::Console& console) {
  tune::StatusOptions options = flags.status;
  options.width = static_cast<size_t>(console.width());
  LiveTable table(console, options);
  const tune::StudySpec& spec = flags.spec;
  std::optional<TuneSinks> sinks;
  int64_t started = 0;  // by this program, or beside it
  tune::Study study(spec,
                    &tune::wall_clock_s,
                    [&](const auto& core, auto events) {
                      if (sinks) started += starts_among(events);
                      if (sinks) sinks->on_events(events);
                      table.on_events(core, events);
                    },
                    {.lock_patience_s = kLockPatienceS,
                     .note = [&](const std::string& line) { table.note(line); }});
  sinks.emplace(spec, [&](const std::string& line) { table.note(line); });
  if (study.resumed_events() > 0)
    table.note(concat("going on with study ", spec.name, " of ", spec.storage.string()));
  tune::ResourcePool pool = resources_of(spec);
  const tune::ExecutorEntry& entry = executor_of(flags);
  const auto executor = entry.make(
      {.spec = spec, .study = spec.name, .identity = study.look([](const tune::StudyCore& core) {
         return core.identity();
       })},
      {});
  tune::StatusFacts last;
  const tune::TunerOutcome outcome =
      tune::run_study(study,
                      spec,
                      *executor,
                      pool,
                      {.note = [&](const std::string& line) { table.note(line); },
                       .tick =
                           [&](const tune::StudyCore& core, const tune::StatusFacts& facts) {
                             last = facts;
                             table.redraw(core, facts);
                           }});
  int code = kDone;
  study.look([&](const tune::StudyCore& core) {
    if (study.resumed_events() > 0 && started == 0 && !outcome.interrupted && !outcome.failed)
      table.note(concat("nothing was run: study ",
                        spec.name,
                        " had ended before, with ",
                        core.trials().size(),
                        " trials; --num-samples N for more of them, --name NAME for a new study"));
    table.finish(core, last);
    code = conclude(core, outcome, flags, console);
  });
  return code;
}

/// A typo in the command would fail every trial: it is found before there is one.
void check_first_trial(const TuneFlags& flags) {
  if (flags.executor != "local") return;
  tune::StudyCore core(flags.spec);
  const auto next = core.next(0);
  if (next.kind != tune::StudyCore::Next::kStart) return;
  const std::vector<std::string>& command = flags.spec.command;
  const tune::Values& values = core.trials()[static_cast<size_t>(next.trial)].values;
  tune::located(flags.spec, "command", [&] {
    tune::check_program(flags.spec, values);
    if (std::filesystem::path(command[0]).filename() == "muster" && command.size() > 1 &&
        !command[1].starts_with('-') && command[1].find('{') == std::string::npos)
      commands().at(command[1]);  // throws with the nearest name
    check_train_command(flags.spec, values);
  });
}

int run_tune_command(std::span<const std::string> args, program::Console& console) {
  TuneFlags flags;
  if (const auto done = parse_tune_flags(args, console, flags)) return *done;
  if (flags.explain) return explain(flags.spec, console);
  executor_of(flags);
  if (!flags.dry_run) resources_of(flags.spec);
  check_first_trial(flags);
  return flags.dry_run ? dry_run(flags, console) : tune_shown(flags, console);
}

}  // namespace

extern constinit const CommandEntry tune_entry{
    "tune", "search hyperparameters of any program", &run_tune_command};

}  // namespace muster::cli
