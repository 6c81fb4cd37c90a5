#include "muster/tune/objective/objective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse_constraint(std::string_view where,
                                    std::string_view text,
                                    std::string rule) {
  throw usage_error({.refused = concat(where, ": constraint"),
                     .rule = std::move(rule),
                     .value = concat('"', text, '"'),
                     .hint = "for example \"peak_mib <= 900\""});
}

}  // namespace

Objective parse_objective(std::string_view text, std::string_view where) {
  const std::string_view whole = trim(text);
  const size_t blank = whole.find_first_of(" \t");
  const std::string_view mode = whole.substr(0, blank);
  const std::string_view metric =
      blank == std::string_view::npos ? std::string_view() : trim(whole.substr(blank));
  if ((mode != "max" && mode != "min") || metric.empty()) {
    throw usage_error({.refused = concat(where, ": objective"),
                       .rule = "max or min, and a metric",
                       .value = concat('"', text, '"'),
                       .hint = "for example \"max accuracy\" or \"min step_s\""});
  }
  return {.metric = std::string(metric), .mode = parse_mode(mode)};
}

std::string objective_text(const Objective& objective) {
  return concat(name_of(objective.mode), ' ', objective.metric);
}

Constraint parse_constraint(std::string_view text, std::string_view where) {
  const size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos || text.substr(at + 1, 1) != "=")
    refuse_constraint(where, text, "it bounds a metric by <= or >=");
  Constraint constraint{.metric = std::string(trim(text.substr(0, at))),
                        .at_most = text[at] == '<'};
  if (constraint.metric.empty() || to_double(constraint.metric) ||
      constraint.metric.find('=') != std::string::npos)
    refuse_constraint(where, text, "the metric comes first");
  const auto bound = to_double(trim(text.substr(at + 2)));
  if (!bound || !std::isfinite(*bound))
    refuse_constraint(where, text, "the bound is a finite number");
  constraint.bound = *bound;
  return constraint;
}

std::string constraint_text(const Constraint& constraint) {
  return concat(
      constraint.metric, constraint.at_most ? " <= " : " >= ", shortest(constraint.bound));
}

std::vector<std::string> Goals::metrics() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Objective& objective : objectives) add(objective.metric);
  for (const Constraint& constraint : constraints) add(constraint.metric);
  return names;
}

double GoalValues::violation() const {
  double sum = 0;
  for (const double violation : violations) {
    if (std::isnan(violation)) return std::numeric_limits<double>::infinity();
    sum += std::max(0.0, violation);
  }
  return sum;
}

bool GoalValues::has_all_results() const {
  return std::ranges::none_of(results, [](double result) { return std::isnan(result); });
}

std::string GoalValues::missing(const Goals& goals) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::isnan(results[i])) names.push_back(goals.objectives[i].metric);
  }
  for (size_t i = 0; i < violations.size(); ++i) {
    if (std::isnan(violations[i]) &&
        std::ranges::find(names, goals.constraints[i].metric) == names.end())
      names.push_back(goals.constraints[i].metric);
  }
  return join(names, ", ");
}

GoalValues no_values(const Goals& goals) {
  return {.results = std::vector<double>(goals.objectives.size(), kNoNumber),
          .violations = std::vector<double>(goals.constraints.size(), kNoNumber)};
}

void take_metric(double metric, Mode mode, double& last, double& best) {
  last = metric;
  if (std::isnan(best) || score_of(metric, mode) > score_of(best, mode)) best = metric;
}

void take_metrics(const Goals& goals, const Metrics& metrics, GoalValues& values) {
  for (size_t i = 0; i < goals.objectives.size(); ++i) {
    const double* metric = find_metric(metrics, goals.objectives[i].metric);
    if (metric != nullptr) values.results[i] = *metric;
  }
  for (size_t i = 0; i < goals.constraints.size(); ++i) {
    const Constraint& constraint = goals.constraints[i];
    const double* metric = find_metric(metrics, constraint.metric);
    if (metric == nullptr) continue;
    const double beyond =
        constraint.at_most ? *metric - constraint.bound : constraint.bound - *metric;
    values.violations[i] = std::isnan(beyond) ? std::numeric_limits<double>::infinity() : beyond;
  }
}

std::vector<double> scores_of(std::span<const double> results,
                              std::span<const Objective> objectives) {
  std::vector<double> scores;
  for (size_t i = 0; i < objectives.size(); ++i)
    scores.push_back(score_of(results[i], objectives[i].mode));
  return scores;
}

std::string results_text(std::span<const double> results, std::span<const Objective> objectives) {
  std::vector<std::string> words;
  for (size_t i = 0; i < objectives.size(); ++i)
    words.push_back(concat(objectives[i].metric, ' ', shortest(results[i])));
  return join(words, ", ");
}

}  // namespace muster::tune
