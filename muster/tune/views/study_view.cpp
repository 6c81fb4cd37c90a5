#include "muster/tune/views/study_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/tune/views/front_volume.h"

namespace muster::tune {

StudyView view_of(const StudyCore& core) {
  const StudySpec& spec = core.spec();
  StudyView view{.trials = core.trials(),
                 .best = core.best(),
                 .name = spec.name,
                 .metric = spec.metric,
                 .mode = spec.mode,
                 .scheduler = core.scheduler_status(),
                 .time_budget_s = spec.time_budget_s,
                 .trial_folder = spec.command.empty() ? "" : spec.trial_folder};
  view.goals = spec.goals;
  view.front.assign(core.front().begin(), core.front().end());
  if (view.best != nullptr) view.best_result = core.result(*view.best);
  for (const Parameter& parameter : spec.space.parameters())
    view.parameters.push_back(parameter.name);
  return view;
}

std::string trial_name(const StudyView& view, int64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%05lld", static_cast<long long>(number));
  return concat(view.name.empty() ? "trial" : view.name, '_', digits);
}

std::string output_folder(const StudyView& view, int64_t number) {
  return (view.trial_folder / concat("trial-", number)).string();
}

std::string results_text(const StudyView& view, const Trial& trial, bool in_short) {
  std::string out;
  for (size_t i = 0; i < view.goals.objectives.size(); ++i) {
    const double result = trial.goals.results[i];
    out += concat(out.empty() ? "" : " ",
                  view.goals.objectives[i].metric,
                  '=',
                  in_short ? short_text(result) : shortest(result));
  }
  return out;
}

std::string front_text(const StudyView& view) {
  std::vector<std::vector<double>> results;
  size_t infeasible = 0;
  for (const Trial& trial : view.trials) {
    if (trial.state != TrialState::kComplete) continue;
    if (trial.goals.is_feasible()) {
      results.push_back(trial.goals.results);
    } else {
      ++infeasible;
    }
  }
  if (view.front.empty()) {
    return infeasible > 0 ? "no trial satisfies the constraints"
                          : "no trial is complete with all objectives";
  }
  const FrontVolume front = front_volume(results, view.goals.objectives);
  return concat("Pareto front: ",
                view.front.size(),
                " of ",
                view.trials.size(),
                view.trials.size() == 1 ? " trial" : " trials",
                infeasible > 0 ? concat(" (", infeasible, " beyond the constraints)") : "",
                "; hypervolume ",
                short_text(front.volume),
                " from ",
                front.from);
}

std::string short_text(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", value);
  return digits;
}

std::string parameters_text(const StudyView& view, const Trial& trial, bool in_short) {
  std::string out;
  for (size_t i = 0; i < std::min(view.parameters.size(), trial.values.size()); ++i) {
    const Value& value = trial.values[i];
    if (value.is_none()) continue;
    const std::string text =
        in_short && value.is_double() ? short_text(value.as_double()) : value_text(value);
    out += concat(out.empty() ? "" : " ", view.parameters[i], '=', text);
  }
  return printable(out);
}

double run_seconds(const Trial& trial, double now_s) {
  const bool runs = trial.state == TrialState::kRunning;
  return trial.run_s + (runs ? std::max(0.0, now_s - trial.attempt_s) : 0.0);
}

double seconds_left(const StudyView& view, const StatusFacts& facts) {
  const double used_s = facts.before_s + facts.now_s - facts.started_s;
  const double budget_left =
      view.time_budget_s > 0 ? std::max(0.0, view.time_budget_s - used_s) : -1;
  double over_s = 0;
  int64_t over = 0, running = 0;
  for (const Trial& trial : view.trials) {
    if (is_over(trial.state)) over_s += trial.run_s, ++over;
    if (trial.state == TrialState::kRunning) ++running;
  }
  if (facts.planned < 0 || over == 0) return budget_left;
  const double mean_s = over_s / static_cast<double>(over);
  double work_s = mean_s * static_cast<double>(std::max<int64_t>(0, facts.planned - over));
  for (const Trial& trial : view.trials)
    if (!is_over(trial.state)) work_s -= std::min(mean_s, run_seconds(trial, facts.now_s));
  const double left = std::max(0.0, work_s) / static_cast<double>(std::max<int64_t>(1, running));
  return budget_left < 0 ? left : std::min(left, budget_left);
}

}  // namespace muster::tune
