// A study as plots see it: its trials with results, ranks, and an axis for each parameter.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/plot/value_axis.h"
#include "muster/tune/views/history.h"
#include "muster/tune/views/importance.h"

namespace muster::tune {

/// What a plot is made from. The trials are in the order in which they began; places in it are the
/// items of pictures (track::MarkCommand::item).
struct PlotStudy {
  StudyFacts facts;
  std::string scheduler;  ///< "asha:max_t=81"; may be empty
  std::vector<TrialHistory> trials;
  std::vector<double> results;  ///< by trial; NaN for one that has failed or has no result
  std::vector<double> merits;  ///< by trial: 1 the best … 0 the worst, by rank; NaN without result
  /// As best_of; with several objectives the one on the front that is best in facts.metric.
  std::optional<size_t> best;
  std::vector<size_t> front = {};      ///< with several objectives: those on the front, rising
  std::vector<size_t> shown;           ///< the trials to be drawn one by one, rising
  std::vector<ValueAxis> axes;         ///< by parameter
  std::vector<Importance> importance;  ///< most important first; empty: not known
  size_t importance_of = 0;            ///< so many best trials the shares are of
  double now_s = 0;  ///< when it was read, in seconds since 1970: the end of what runs
};

/// With several objectives facts.metric and facts.mode are of the one that plots of one metric draw.
struct PlotInput {
  StudyFacts facts;
  std::vector<TrialHistory> trials;
  std::string scheduler;
  std::vector<Importance> importance;
  size_t importance_of = 0;
  double now_s = 0;
  size_t most_shown = 2000;  ///< of more trials the best quarter of that, and every n-th
  size_t objective = 0;      ///< the one of several that plots of one metric draw
};

PlotStudy plot_study(PlotInput input);

/// At most `most` of those that are shown: the best quarter of that many, and every n-th of the
/// others. Rising.
std::vector<size_t> shown_trials(const PlotStudy& study, size_t most);

/// "500 of 10,000 trials are drawn: the best 125 and every 27th other"; "" if all are.
std::string thinned_note(const PlotStudy& study, size_t drawn);

inline constexpr const char* kAtTheEdge = "infinite values are at the edge";

/// kAtTheEdge if a trial's result is infinite, else "".
std::string infinite_note(const PlotStudy& study);

/// "A; B", or the one that is there.
std::string both_notes(const std::string& a, const std::string& b);

inline constexpr size_t kFewBestTrials = 5;  ///< importance of fewer says little, as Optuna has it

/// Parameters that differ between trials: most important first, if that says something, else as
/// declared.
std::vector<size_t> varying_parameters(const PlotStudy& study);

/// It is over, with a number for each constraint, and violates one.
bool is_beyond_constraints(const TrialHistory& trial);

/// "trial 12: loss 0.31".
std::string trial_words(const PlotStudy& study, size_t trial);

/// A result to read off: six significant digits, "0.412345"; "–" for NaN.
std::string result_text(double result);

/// "loss (lower is better)".
std::string metric_title(const PlotStudy& study);

}  // namespace muster::tune
