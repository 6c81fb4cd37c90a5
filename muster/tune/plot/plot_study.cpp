#include "muster/tune/plot/plot_study.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr size_t kBestShare = 4;  // one of so many that are shown is of the best

double plotted_result(const TrialHistory& trial, const StudyFacts& facts) {
  return trial.state == TrialState::kFailed ? std::numeric_limits<double>::quiet_NaN()
                                            : result_of(trial, facts);
}

/// Trials with a result, best first; equal ones as they began.
std::vector<size_t> by_result(const PlotStudy& study) {
  std::vector<size_t> order;
  for (size_t i = 0; i < study.results.size(); ++i) {
    if (!std::isnan(study.results[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) {
    return std::pair(!is_beyond_constraints(study.trials[i]),
                     score_of(study.results[i], study.facts.mode));
  });
  return order;
}

/// Equal results have the middle of their ranks.
std::vector<double> merits_of(const PlotStudy& study) {
  std::vector<double> merits(study.trials.size(), std::numeric_limits<double>::quiet_NaN());
  const std::vector<size_t> order = by_result(study);
  const double last = std::max(1.0, static_cast<double>(order.size()) - 1);
  for (size_t from = 0, to = 0; from < order.size(); from = to) {
    const auto is_equal = [&](size_t a, size_t b) {
      return study.results[a] == study.results[b] &&
             is_beyond_constraints(study.trials[a]) == is_beyond_constraints(study.trials[b]);
    };
    while (to < order.size() && is_equal(order[to], order[from])) ++to;
    const double rank = static_cast<double>(from + to - 1) / 2;
    for (size_t i = from; i < to; ++i) merits[order[i]] = order.size() == 1 ? 1 : 1 - rank / last;
  }
  return merits;
}

/// The best ones, then evenly of the others.
std::vector<size_t> chosen(const PlotStudy& study, std::vector<size_t> from, size_t most) {
  if (from.size() <= most) return from;
  std::vector<size_t> order = from;
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) {
    return std::isnan(study.merits[i]) ? -1 : study.merits[i];
  });
  const size_t best = std::max<size_t>(1, most / kBestShare);
  std::vector<size_t> out(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best));
  std::vector<size_t> others(order.begin() + static_cast<std::ptrdiff_t>(best), order.end());
  std::ranges::sort(others);
  const size_t wanted = most - best;
  for (size_t i = 0; i < wanted; ++i) out.push_back(others[i * others.size() / wanted]);
  std::ranges::sort(out);
  return out;
}

std::vector<ValueAxis> axes_of(const PlotStudy& study) {
  std::vector<ValueAxis> axes;
  for (size_t p = 0; p < study.facts.parameters.size(); ++p) {
    std::vector<Value> values;
    for (const TrialHistory& trial : study.trials) values.push_back(trial.values[p]);
    const StudyFacts::Parameter& parameter = study.facts.parameters[p];
    axes.emplace_back(parameter.name, parameter.domain, values, parameter.log);
  }
  return axes;
}

/// "10,000".
std::string with_commas(size_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

/// Plots of one metric draw that objective.
void look_at(PlotStudy& study, size_t objective) {
  if (!study.facts.goals.several()) return;
  study.facts.metric = study.facts.goals.objectives[objective].metric;
  study.facts.mode = study.facts.goals.objectives[objective].mode;
  for (TrialHistory& trial : study.trials) trial.last = trial.best = trial.goals.results[objective];
}

void find_front(PlotStudy& study) {
  if (!study.facts.goals.several()) return;
  for (const TrialHistory* trial : front_of(study.trials, study.facts)) {
    const auto place = static_cast<size_t>(trial - study.trials.data());
    study.front.push_back(place);
    const auto score = [&](size_t i) { return score_of(study.results[i], study.facts.mode); };
    if (!study.best || score(place) > score(*study.best)) study.best = place;
  }
}

}  // namespace

bool is_beyond_constraints(const TrialHistory& trial) {
  return is_over(trial.state) && trial.state != TrialState::kFailed && !trial.goals.is_feasible();
}

PlotStudy plot_study(PlotInput input) {
  PlotStudy study{.facts = std::move(input.facts),
                  .scheduler = std::move(input.scheduler),
                  .trials = std::move(input.trials),
                  .importance = std::move(input.importance),
                  .importance_of = input.importance_of,
                  .now_s = input.now_s};
  // Those that wait have no beginning yet.
  std::ranges::stable_sort(study.trials, {}, [](const TrialHistory& trial) {
    return trial.started_s > 0 ? trial.started_s : std::numeric_limits<double>::infinity();
  });
  look_at(study, input.objective);
  for (const TrialHistory& trial : study.trials)
    study.results.push_back(plotted_result(trial, study.facts));
  if (const TrialHistory* best = best_of(study.trials, study.facts))
    study.best = static_cast<size_t>(best - study.trials.data());
  find_front(study);
  study.merits = merits_of(study);
  study.axes = axes_of(study);
  std::vector<size_t> all(study.trials.size());
  std::iota(all.begin(), all.end(), size_t{0});
  study.shown = chosen(study, std::move(all), input.most_shown);
  return study;
}

std::vector<size_t> shown_trials(const PlotStudy& study, size_t most) {
  return chosen(study, study.shown, most);
}

std::string thinned_note(const PlotStudy& study, size_t drawn) {
  if (drawn >= study.trials.size()) return "";
  return concat(with_commas(drawn),
                " of ",
                with_commas(study.trials.size()),
                " trials are drawn: the best ",
                with_commas(std::max<size_t>(1, drawn / kBestShare)),
                ", the others evenly");
}

std::string infinite_note(const PlotStudy& study) {
  const auto is_infinite = [](double result) { return std::isinf(result); };
  return std::ranges::any_of(study.results, is_infinite) ? kAtTheEdge : "";
}

std::string both_notes(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : concat(a, "; ", b);
}

std::vector<size_t> varying_parameters(const PlotStudy& study) {
  std::vector<size_t> out;
  const auto add = [&](size_t p) {
    if (!study.axes[p].is_constant() && std::ranges::find(out, p) == out.end()) out.push_back(p);
  };
  const bool known = study.importance_of >= kFewBestTrials;
  for (const Importance& share : known ? study.importance : std::vector<Importance>()) {
    for (size_t p = 0; p < study.axes.size(); ++p) {
      if (study.axes[p].name() == share.parameter) add(p);
    }
  }
  for (size_t p = 0; p < study.axes.size(); ++p) add(p);
  return out;
}

std::string trial_words(const PlotStudy& study, size_t trial) {
  const TrialHistory& one = study.trials[trial];
  return concat("trial ",
                trial_label(one),
                ": ",
                study.facts.metric,
                ' ',
                result_text(study.results[trial]),
                ", ",
                state_word(one));
}

std::string result_text(double result) {
  if (std::isnan(result)) return "–";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", result);
  return digits;
}

std::string metric_title(const PlotStudy& study) {
  const bool max = study.facts.mode == Mode::kMax;
  return concat(study.facts.metric, max ? " (higher is better)" : " (lower is better)");
}

}  // namespace muster::tune
