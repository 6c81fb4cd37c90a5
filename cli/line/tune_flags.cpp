#include "cli/line/tune_flags.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/given.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/core/study_paths.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/files/sweep_yaml.h"
#include "muster/tune/space/command_template.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

const char* const kTuneDescription =
    "Search hyperparameters: run a study of trials, each a run of a program with other parameters, "
    "or go on with a study that was stopped or killed. What to search is said by a study file "
    "(TOML, or a W&B sweep in YAML), by flags, or both; flags win.";

const char* const kTuneFooter =
    "Examples:\n"
    "  muster tune study.toml\n"
    "  muster tune study.toml --num-samples 50 --max-concurrent 4\n"
    "  muster tune --metric loss --mode min --param lr='loguniform(1e-4,1e-1)' \\\n"
    "    --num-samples 20 -- ./train.sh --lr '{lr}'\n"
    "  muster tune study.toml --dry-run 5\n"
    "\n"
    "Exit codes:\n"
    "  0 done; 1 no trial ended with a result, or trials fail so that it was given\n"
    "  up; 2 wrong use; 130 interrupted with the state saved: the same command goes\n"
    "  on. Ctrl-C stops the trials, once more kills.\n"
    "\n"
    "How a program reports: docs/trial-protocol.md. Look at studies: muster study.";

/// Flags as typed; empty: the file's, or the default.
struct TypedTune {
  std::string file, name, storage, metric, mode, scope, searcher, scheduler, executor;
  std::vector<std::string> params, stop, objectives, constraints;
  std::vector<std::string> metric_columns;
  std::optional<int64_t> num_samples, max_concurrent;
  std::optional<uint64_t> seed;
  std::optional<double> cpu, gpu, time_budget_s, trial_timeout_s;
  std::optional<int64_t> max_failures, keep_checkpoints;
  bool durable = false, ray_files = false, tensorboard = false, fail_fast = false;
};

void add_what(CLI::App& app, TypedTune& typed) {
  program::add_value(app, "study", typed.file, "study file: .toml, or a W&B sweep .yaml")
      ->type_name("FILE");
  program::add_value(
      app, "--param", typed.params, "a parameter: NAME=DOMAIN; may be given several times")
      ->type_name("P")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  program::add_value(app, "--metric", typed.metric, "what trials report and the study improves")
      ->type_name("NAME");
  program::add_value(app, "--mode", typed.mode, "whether more of it is better")
      ->type_name("max|min");
  program::add_value(app,
                     "--objective",
                     typed.objectives,
                     "\"max accuracy\", \"min step_s\": of several, instead of metric and mode")
      ->type_name("GOAL")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  program::add_value(app,
                     "--constraint",
                     typed.constraints,
                     "\"peak_mib <= 900\": a trial beyond it is never best")
      ->type_name("RULE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  program::add_value(app, "--scope", typed.scope, "which report is a trial's result [last]")
      ->type_name("last|best");
  program::add_value(
      app, "--num-samples", typed.num_samples, "trials, times the grid's size; -1: no end")
      ->type_name("N");
  program::add_value(
      app, "--searcher", typed.searcher, "name:key=value,… (muster list searchers) [random]")
      ->type_name("NAME");
  program::add_value(
      app, "--scheduler", typed.scheduler, "name:key=value,… (muster list schedulers) [fifo]")
      ->type_name("NAME");
  program::add_value(app, "--seed", typed.seed, "of draws")->type_name("N");
  program::add_value(
      app, "--stop", typed.stop, "\"accuracy >= 0.95\": a trial that reports it is done")
      ->type_name("RULE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_how(CLI::App& app, TypedTune& typed) {
  program::add_value(app, "--name", typed.name, "the study's name [the file's]")->type_name("NAME");
  program::add_value(
      app, "--storage", typed.storage, "SQLite file [the study file's NAME.db, or ./NAME.db]")
      ->type_name("FILE");
  program::add_value(app, "--max-concurrent", typed.max_concurrent, "trials at once [what fits]")
      ->type_name("N");
  program::add_value(app, "--cpu", typed.cpu, "cores per trial [1]")->type_name("X");
  program::add_value(app, "--gpu", typed.gpu, "GPUs per trial, or a share of one [0]")
      ->type_name("X");
  program::add_duration(
      app, "--time-budget", typed.time_budget_s, "for the whole study: 2h, 90m, 5400; 0: no end");
  program::add_duration(app,
                        "--trial-timeout",
                        typed.trial_timeout_s,
                        "for one attempt of a trial: 20m, 1200; 0: no end");
  program::add_value(
      app, "--max-failures", typed.max_failures, "further attempts of a trial that fails [0]")
      ->type_name("N");
  program::add_value(app,
                     "--keep-checkpoints",
                     typed.keep_checkpoints,
                     "of each trial the newest N stay, and what one needs [all]")
      ->type_name("N");
  app.add_flag("--fail-fast", typed.fail_fast, "the first trial that has failed ends the study");
  program::add_value(
      app, "--executor", typed.executor, "how trials are run (muster list executors) [local]")
      ->type_name("NAME");
  app.add_flag("--durable", typed.durable, "reports survive a power cut, not just kills");
  app.add_flag("--ray-files", typed.ray_files, "also write Ray's result.json, progress.csv, …");
  app.add_flag("--tensorboard", typed.tensorboard, "also write TensorBoard scalars and hparams");
}

void add_output(CLI::App& app, TypedTune& typed, TuneFlags& flags) {
  program::add_value(
      app, "--metric-columns", typed.metric_columns, "metrics in the table, by commas")
      ->type_name("NAMES")
      ->delimiter(',');
  program::add_value(app, "--max-rows", flags.status.max_rows, "trials in the table")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--sort-by-metric", flags.status.sort_by_metric, "best trials first");
  program::add_value(
      app, "--dry-run", flags.dry_run, "print N configurations, refuse what is wrong, and stop")
      ->type_name("N");
  app.add_flag("--explain", flags.explain, "say what searcher and scheduler do, and stop");
  app.add_flag("--json", flags.json, "print the result as one JSON object");
}

/// An empty text would pass for a flag that was not given.
void refuse_what_says_nothing(const CLI::App& app, const TuneFlags& flags) {
  for (const CLI::Option* option : app.get_options()) {
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    throw usage_error({.refused = option->get_name(), .rule = "it is not empty", .value = "\"\""});
  }
  if (flags.dry_run && *flags.dry_run < 0) {
    throw usage_error({.refused = "--dry-run",
                       .rule = "a whole number of at least 0",
                       .value = std::to_string(*flags.dry_run)});
  }
}

/// `params` may be what the file's command and conditions name.
tune::StudySpec spec_of_file(const std::string& file, std::span<const tune::Parameter> params) {
  if (file.empty()) return {};
  const std::string extension = fs::path(file).extension().string();
  if (extension == ".yaml" || extension == ".yml") return tune::read_sweep_yaml(file);
  return tune::read_study_file(file, params);
}

std::vector<tune::Parameter> parameters_of(const std::vector<std::string>& flags) {
  std::vector<tune::Parameter> out;
  for (const std::string& flag : flags) {
    out.push_back(tune::parse_param_flag(flag));
    const auto same = std::ranges::count(out, out.back().name, &tune::Parameter::name);
    if (same > 1) {
      throw usage_error(
          {.refused = "--param " + out.back().name, .rule = "each parameter is given once"});
    }
  }
  return out;
}

/// Keys of the file that flags have overruled: what is wrong with their values is not its fault.
void forget_places(const TypedTune& typed, tune::StudySpec& spec) {
  const auto forget = [&](const auto& given, const char* key) {
    std::remove_cvref_t<decltype(given)> none{};
    if (given != none) spec.places.erase(key);
  };
  forget(typed.searcher, "searcher");
  forget(typed.scheduler, "scheduler");
  forget(typed.executor, "executor");
  forget(typed.num_samples, "num_samples");
  forget(typed.max_concurrent, "max_concurrent");
  forget(typed.keep_checkpoints, "keep_checkpoints");
  forget(typed.time_budget_s, "time_budget_s");
  forget(typed.trial_timeout_s, "trial_timeout_s");
  forget(typed.cpu, "resources_per_trial");
  forget(typed.gpu, "resources_per_trial");
}

/// Flags win: either kind replaces what the file has of the other.
void apply_goals(const TypedTune& typed, tune::StudySpec& spec) {
  const bool one = !typed.metric.empty() || !typed.mode.empty();
  if (one && !typed.objectives.empty()) {
    throw usage_error({.refused = "--objective with --metric or --mode",
                       .rule = "a study has objectives, or a metric and its mode",
                       .value = typed.objectives[0]});
  }
  const bool is_filled_in = spec.metric.empty() && spec.places.contains("mode");
  if (typed.mode.empty() && !typed.metric.empty() && typed.metric != spec.metric && !is_filled_in) {
    throw usage_error({.refused = "--metric " + typed.metric,
                       .rule = "--mode min or --mode max says which end of it is the better one",
                       .hint = "--mode min for a loss, --mode max for an accuracy"});
  }
  if (one) spec.goals.objectives.clear();
  set_if_given(spec.metric, typed.metric);
  if (!typed.mode.empty()) spec.mode = tune::parse_mode(typed.mode);
  if (!typed.objectives.empty()) {
    std::vector<tune::Objective> objectives;
    for (const std::string& text : typed.objectives)
      objectives.push_back(tune::parse_objective(text, "--objective"));
    spec.goals.objectives.clear();
    tune::set_objectives(spec, std::move(objectives));
  }
  for (const std::string& text : typed.constraints)
    spec.goals.constraints.push_back(tune::parse_constraint(text, "--constraint"));
}

void apply(const TypedTune& typed, std::span<const tune::Parameter> params, tune::StudySpec& spec) {
  forget_places(typed, spec);
  set_if_given(spec.name, typed.name);
  set_if_given(spec.storage, typed.storage);
  apply_goals(typed, spec);
  if (!typed.scope.empty()) spec.scope = tune::parse_scope(typed.scope);
  set_if_given(spec.searcher, typed.searcher);
  set_if_given(spec.scheduler, typed.scheduler);
  set_if_given(spec.num_samples, typed.num_samples);
  set_if_given(spec.max_concurrent, typed.max_concurrent);
  set_if_given(spec.seed, typed.seed);
  set_if_given(spec.resources_per_trial.cpu, typed.cpu);
  set_if_given(spec.resources_per_trial.gpu, typed.gpu);
  set_if_given(spec.time_budget_s, typed.time_budget_s);
  set_if_given(spec.trial_timeout_s, typed.trial_timeout_s);
  set_if_given(spec.keep_checkpoints, typed.keep_checkpoints);
  if (typed.max_failures) {
    for (tune::FailurePolicy& policy : spec.failures) policy.retries = *typed.max_failures;
  }
  for (const std::string& rule : typed.stop)
    spec.stop.push_back(tune::parse_stop_criterion(rule, "--stop"));
  if (!params.empty())
    spec.space = tune::Space(tune::merge_parameters(spec.space.parameters(), params));
  spec.durable |= typed.durable;
  spec.fail_fast |= typed.fail_fast;
  spec.ray_files |= typed.ray_files;
  spec.tensorboard |= typed.tensorboard;
}

/// What neither file nor flags said.
void fill_in(const std::string& file, tune::StudySpec& spec) {
  if (spec.name.empty()) spec.name = file.empty() ? "study" : fs::path(file).stem();
  if (spec.storage.empty()) spec.storage = spec.name + ".db";
  if (spec.working_folder.empty()) spec.working_folder = fs::current_path();
  spec.storage = fs::absolute(spec.storage);
  if (spec.trial_folder.empty()) {
    spec.trial_folder = trial_folder_of(spec.storage, spec.name);
  }
}

}  // namespace

fs::path trial_folder_of(const fs::path& storage, const std::string& study) {
  const bool is_plain = study.find_first_of(std::string_view("/\0", 2)) == study.npos &&
                        !study.empty() && study != "." && study != ".." && study.size() <= 150;
  return storage.parent_path() / (storage.stem().string() + "-trials") /
         (is_plain ? study : tune::file_part(study));
}

std::optional<int> parse_tune_flags(std::span<const std::string> args,
                                    program::Console& console,
                                    TuneFlags& flags) {
  TypedTune typed;
  auto app = make_app(
      "tune", kTuneDescription, kTuneFooter, "muster tune [STUDY] [OPTIONS] [-- PROGRAM ARGS]");
  add_what(*app, typed);
  add_how(*app, typed);
  add_output(*app, typed, flags);
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (const auto done = program::parse(*app, {args.begin(), dashes}, console)) return done;
  refuse_what_says_nothing(*app, flags);
  const std::vector<tune::Parameter> params = parameters_of(typed.params);
  flags.spec = spec_of_file(typed.file, params);
  flags.executor = flags.spec.executor;
  apply(typed, params, flags.spec);
  if (dashes != args.end()) {
    flags.spec.command.assign(dashes + 1, args.end());
    flags.spec.places.erase("command");
  }
  fill_in(typed.file, flags.spec);
  set_if_given(flags.executor, typed.executor);
  for (const std::string& name : typed.metric_columns)
    flags.status.metric_columns.emplace_back(name, name);
  tune::check_study(flags.spec);
  if (flags.spec.command.empty()) {
    throw tune::at_place(
        flags.spec,
        tune::kWholeFile,
        usage_error({.refused = "study without a command",
                     .rule = "a trial is the run of a program",
                     .hint = "command = [\"./train.sh\", \"--lr\", \"{lr}\"] in the study file, or "
                             "-- PROGRAM ARGS"}));
  }
  tune::located(
      flags.spec, "command", [&] { tune::check_command(flags.spec.command, flags.spec.space); });
  return std::nullopt;
}

tune::StudySpec study_of_file(const std::string& file, const std::string& storage) {
  tune::StudySpec spec = spec_of_file(file, {});
  if (!storage.empty()) spec.storage = storage;
  fill_in(file, spec);
  tune::check_study(spec);
  return spec;
}

}  // namespace muster::cli
