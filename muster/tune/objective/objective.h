// What a study improves, if that is more than one metric, and what its trials must keep to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/space/value.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Several objectives]
// A study of several objectives has no best trial but a front: the trials that no other one is
// better than, being at least as good in each objective and better in one (Pareto). An objective's
// result is the newest number that the trial has reported of it, whichever report that was in; a
// trial that ends without a number of each has failed.
//
// A constraint bounds a metric: "peak_mib <= 900". How far its newest number is beyond the bound is
// its violation; a trial with one above 0 is infeasible, and never best nor on the front. Searchers
// go by Deb's rules: a feasible trial before an infeasible one, of those the one with the smaller
// sum of violations. Source: Deb, Pratap, Agarwal, Meyarivan 2002, "A fast and elitist
// multiobjective genetic algorithm: NSGA-II", section VI; optuna 5.0.0 has them so.
//
// Everywhere a list of objectives is empty for a study that has one: its metric and its mode.

struct Objective {
  std::string metric;
  Mode mode = Mode::kMax;
  friend bool operator==(const Objective&, const Objective&) = default;
};

struct Constraint {
  std::string metric;
  bool at_most = true;  ///< else at least
  double bound = 0;     ///< finite
  friend bool operator==(const Constraint&, const Constraint&) = default;
};

/// "max accuracy" or "min step_s". Throws a usage error that starts with `where` for anything else.
Objective parse_objective(std::string_view text, std::string_view where);
std::string objective_text(const Objective& objective);

/// "peak_mib <= 900" or "accuracy >= 0.8"; blanks are free. Throws as parse_objective.
Constraint parse_constraint(std::string_view text, std::string_view where);
std::string constraint_text(const Constraint& constraint);

struct Goals {
  std::vector<Objective> objectives;  ///< empty: one, which the study knows as its metric
  std::vector<Constraint> constraints;

  bool several() const { return !objectives.empty(); }
  bool any() const { return several() || !constraints.empty(); }
  std::vector<std::string> metrics() const;  ///< all that are named, each once
  friend bool operator==(const Goals&, const Goals&) = default;
};

/// A trial's newest numbers of what its study's goals name.
struct GoalValues {
  std::vector<double> results;     ///< by objective; NaN: none; empty unless there are several
  std::vector<double> violations;  ///< by constraint: value beyond the bound; NaN: none reported

  /// Of all constraints that are violated, summed; infinite while one has no number. 0: feasible.
  double violation() const;
  bool is_feasible() const { return !(violation() > 0); }
  bool has_all_results() const;

  /// "reported no step_s": what is missing; empty if nothing is.
  std::string missing(const Goals& goals) const;
};

/// Without any number.
GoalValues no_values(const Goals& goals);

/// Takes what a report has of them. NaN of a constraint's metric is an infinite violation.
void take_metrics(const Goals& goals, const Metrics& metrics, GoalValues& values);

/// Takes a number of the study's metric: it is the newest one, and the best one unless another is at
/// least as good. NaN: none so far, and never the best. Whoever tells results of a study goes by this.
void take_metric(double metric, Mode mode, double& last, double& best);

/// Larger is better, by objective.
std::vector<double> scores_of(std::span<const double> results,
                              std::span<const Objective> objectives);

/// "accuracy 0.91, step_s 0.12", with all digits.
std::string results_text(std::span<const double> results, std::span<const Objective> objectives);

}  // namespace muster::tune
