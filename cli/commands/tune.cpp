// `muster tune`: runs a study, or goes on with it.
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/run/tuner.h"

#include "cli/command.h"
#include "cli/live_table.h"
#include "cli/tune_flags.h"
#include "cli/tune_sinks.h"

namespace muster::cli {
namespace {

std::string words_of(const tune::Space& space, const tune::Values& values) {
  std::string words;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_none()) continue;
    words += concat(
        words.empty() ? "" : " ", space.parameters()[i].name, '=', tune::value_text(values[i]));
  }
  return words;
}

/// The configurations that the study would begin with, each as if the ones before ran for ever.
int dry_run(const TuneFlags& flags, Console& console) {
  tune::StudyCore core(flags.spec);
  console.err() << core.scheduler_status() << '\n';
  for (int64_t i = 0; i < flags.dry_run; ++i) {
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

Json result_json(const tune::StudyCore& core, const tune::TunerOutcome& outcome) {
  Json counts = Json::object();
  for (const tune::Trial& trial : core.trials()) {
    Json& count = counts[std::string(tune::optuna_name(trial.state))];
    count = count.is_null() ? 1 : count.get<int64_t>() + 1;
  }
  Json best = nullptr;
  if (const tune::Trial* trial = core.best()) {
    best = {{"number", trial->number},
            {core.spec().metric, core.result(*trial)},
            {"params", tune::to_json(core.spec().space, trial->values)},
            {"checkpoint", trial->checkpoint}};
  }
  return {{"study", core.spec().name},
          {"storage", core.spec().storage.string()},
          {"trials", std::move(counts)},
          {"interrupted", outcome.interrupted},
          {"best", std::move(best)}};
}

/// The last words, on stdout: what a script reads.
int conclude(const tune::StudyCore& core,
             const tune::TunerOutcome& outcome,
             const TuneFlags& flags,
             Console& console) {
  const tune::Trial* best = core.best();
  if (flags.json) {
    console.out() << json_text(result_json(core, outcome)) << '\n';
  } else if (best != nullptr) {
    console.out() << "best " << core.spec().metric << ' ' << shortest(core.result(*best))
                  << " trial " << best->number << ' ' << words_of(core.spec().space, best->values)
                  << '\n';
  }
  if (outcome.interrupted) return kInterrupted;
  if (best != nullptr) return kDone;
  console.error("no trial ended with a result");
  return kFailed;
}

int tune_shown(const TuneFlags& flags, Console& console) {
  tune::StatusOptions options = flags.status;
  options.width = static_cast<size_t>(console.width());
  LiveTable table(console, options);
  const tune::StudySpec& spec = flags.spec;
  TuneSinks sinks(spec);
  tune::Study study(spec, &tune::wall_clock_s, [&](const auto& core, auto events) {
    sinks.take(events);
    table.on_events(core, events);
  });
  if (study.resumed_events() > 0)
    table.note(concat("going on with study ", spec.name, " of ", spec.storage.string()));
  tune::ResourcePool pool(tune::this_machine(), spec.resources_per_trial);
  const tune::ExecutorEntry& entry = tune::executors().at(flags.executor);
  const auto executor = entry.make({.spec = spec, .study = spec.name}, {});
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
  study.apply([&](tune::StudyCore& core, double) {
    table.finish(core, last);
    code = conclude(core, outcome, flags, console);
  });
  return code;
}

int run_tune_command(std::span<const std::string> args, Console& console) {
  TuneFlags flags;
  if (const auto done = parse_tune_flags(args, console, flags)) return *done;
  return flags.dry_run > 0 ? dry_run(flags, console) : tune_shown(flags, console);
}

}  // namespace

extern constinit const CommandEntry tune_entry{
    "tune", "search hyperparameters of any program", &run_tune_command};

}  // namespace muster::cli
