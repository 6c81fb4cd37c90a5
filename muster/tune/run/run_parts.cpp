#include "muster/tune/run/run_parts.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"

namespace muster::tune {
namespace {

/// A study that improves the wrong way is found out late, if ever.
Mode mode_of(const RunConfig& config) {
  if (!config.mode.empty()) return parse_mode(config.mode);
  throw usage_error({.refused = "study without a mode",
                     .rule = "mode says which way the metric is better",
                     .hint = ".mode = \"min\" for a loss, \"max\" for an accuracy"});
}

void take_objectives(const RunConfig& config, StudySpec& spec) {
  if (!config.objectives.empty() && (!config.metric.empty() || !config.mode.empty())) {
    throw usage_error({.refused = "objectives beside metric or mode",
                       .rule = "a study has objectives, or a metric and its mode",
                       .value = join(config.objectives, ", ")});
  }
  std::vector<Objective> objectives;
  for (const std::string& text : config.objectives)
    objectives.push_back(parse_objective(text, "objectives"));
  set_objectives(spec, std::move(objectives));
  for (const std::string& text : config.constraints)
    spec.goals.constraints.push_back(parse_constraint(text, "constraints"));
}

}  // namespace

StudySpec run_spec(const RunConfig& config) {
  StudySpec spec{.name = config.name,
                 .storage = config.storage,
                 .metric = config.metric,
                 .mode = config.objectives.empty() ? mode_of(config) : Mode::kMax};
  take_objectives(config, spec);
  spec.space = config.config;
  spec.num_samples = config.num_samples;
  spec.max_concurrent = config.max_concurrent_trials;
  spec.time_budget_s = config.time_budget_s;
  for (const std::string& text : config.stop)
    spec.stop.push_back(parse_stop_criterion(text, "stop"));
  spec.plateau = config.plateau;
  spec.points_to_evaluate = config.points_to_evaluate;
  spec.searcher = config.search_alg.text;
  spec.own_searcher = config.search_alg.own;
  spec.scheduler = config.scheduler.text;
  spec.own_scheduler = config.scheduler.own;
  spec.seed = config.seed;
  spec.resources_per_trial = config.resources_per_trial;
  spec.machine_custom = config.machine_custom;
  spec.failures.fill({.retries = config.max_failures});
  for (const auto& [failure, policy] : config.failures)
    spec.failures[static_cast<size_t>(failure)] = policy;
  spec.trial_timeout_s = config.trial_timeout_s;
  spec.report_timeout_s = config.report_timeout_s;
  spec.nan_is_failure = config.nan_is_failure;
  spec.keep_checkpoints = config.keep_checkpoints;
  spec.fail_fast = config.fail_fast;
  spec.give_up_after = config.give_up_after;
  spec.durable = config.durable;
  spec.storage_patience_s = config.storage_patience_s;
  spec.scope = parse_scope(config.scope);
  check_study(spec);
  return spec;
}

EventObserver run_observer(const RunConfig& config) {
  const RunCallbacks& callbacks = config.callbacks;
  if (!callbacks.on_report && !callbacks.on_trial_end) return config.on_events;
  return [&config](const StudyCore& core, std::span<const Event> events) {
    if (config.on_events) config.on_events(core, events);
    for (const Event& event : events) {
      if (event.trial < 0) continue;
      const Trial& trial = core.trials()[static_cast<size_t>(event.trial)];
      const auto* reported = std::get_if<Reported>(&event.what);
      const auto* ended = std::get_if<AttemptEnded>(&event.what);
      if (reported != nullptr && config.callbacks.on_report)
        config.callbacks.on_report(trial, *reported);
      if (ended != nullptr && is_over(ended->then) && config.callbacks.on_trial_end)
        config.callbacks.on_trial_end(trial);
    }
  };
}

}  // namespace muster::tune
