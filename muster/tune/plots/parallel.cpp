// A line for each trial through its parameters' values, coloured by the result.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

using track::Anchor;
using track::Ink;

constexpr size_t kMostAxes = 12;  // unless named
constexpr size_t kMostLines = 1000;
constexpr double kParallelHeight = 360;
constexpr double kFoot = 16;  // of the box: where a parameter does not apply

/// The axes side by side: the metric's, then the parameters'.
class Parallel {
 public:
  Parallel(const PlotStudy& study, const std::vector<size_t>& parameters, const ValueAxis& metric)
      : study_(study),
        parameters_(parameters),
        metric_(metric),
        chart_(kWideWidth, kParallelHeight, "Parallel coordinates") {
    chart_.set_box(70, 90, 76, 24);
    for (const size_t parameter : parameters) has_gaps_ = has_gaps_ || has_gaps(parameter);
  }

  track::Picture draw() && {
    result_legend(chart_, study_);
    std::vector<size_t> trials = shown_trials(study_, kMostLines);
    chart_.note(both_notes(thinned_note(study_, trials.size()), infinite_note(study_)));
    std::erase_if(trials, [&](size_t i) { return std::isnan(study_.results[i]); });
    // The best lie above.
    std::ranges::stable_sort(trials, {}, [&](size_t i) { return study_.merits[i]; });
    const double opacity = std::clamp(40 / std::sqrt(double(trials.size() + 1)) / 5, 0.25, 0.85);
    for (const size_t i : trials) draw_trial(i, opacity);
    draw_axis(0, metric_);
    for (size_t p = 0; p < parameters_.size(); ++p) draw_axis(p + 1, study_.axes[parameters_[p]]);
    return std::move(chart_).take();
  }

 private:
  double axis_x(size_t axis) const {
    return chart_.px(static_cast<double>(axis) / static_cast<double>(parameters_.size()));
  }
  double spacing() const { return axis_x(1) - axis_x(0); }
  double foot() const { return chart_.bottom() - (has_gaps_ ? kFoot : 0); }
  double axis_y(double place) const { return foot() - place * (foot() - chart_.top()); }

  void draw_trial(size_t i, double opacity) {
    std::vector<track::Point> points = {{axis_x(0), axis_y(metric_.at(study_.results[i]))}};
    for (size_t p = 0; p < parameters_.size(); ++p) {
      const auto place = study_.axes[parameters_[p]].place(study_.trials[i].values[parameters_[p]]);
      points.push_back({axis_x(p + 1), place ? axis_y(*place) : chart_.bottom()});
    }
    const bool is_best = study_.best == i;
    chart_.add(track::LineCommand{.points = std::move(points),
                                  .ink = track::scale_ink(study_.merits[i]),
                                  .width = is_best ? 2.5 : 1.2,
                                  .opacity = is_best ? 1 : opacity,
                                  .item = static_cast<int64_t>(i)});
  }

  void draw_axis(size_t at, const ValueAxis& axis) {
    const double x = axis_x(at);
    const Anchor anchor = at == 0 ? Anchor::kStart : Anchor::kMiddle;
    const std::string name =
        track::cut_text(axis.is_log() ? axis.name() + " (log)" : axis.name(), spacing() - 8);
    chart_.text(at == 0 ? 0 : x, chart_.top() - 14, name, anchor, Ink::kStrong);
    chart_.line(x, chart_.top(), x, foot(), Ink::kAxis, 1.2);
    const auto ticks = axis.ticks(6);
    const size_t stride = 1 + ticks.size() / static_cast<size_t>((foot() - chart_.top()) / 13);
    for (size_t i = 0; i < ticks.size(); i += stride) {
      const double y = axis_y(ticks[i].place);
      chart_.line(x - 3, y, x + 3, y, Ink::kAxis);
      const double room = at == 0 ? 60 : std::min(spacing(), 110.0) - 16;
      chart_.text(at == 0 ? x - 6 : x + 6,
                  y + 4,
                  track::cut_text(ticks[i].label, room),
                  at == 0 ? Anchor::kEnd : Anchor::kStart,
                  Ink::kText,
                  /*halo=*/true);
    }
    if (at > 0 && has_gaps(parameters_[at - 1]))
      chart_.text(x + 6, chart_.bottom() + 4, "not set", Anchor::kStart, Ink::kDim, true);
  }

  /// Some trials do not have it.
  bool has_gaps(size_t parameter) const {
    return std::ranges::any_of(study_.trials, [&](const TrialHistory& trial) {
      return trial.values[parameter].is_none();
    });
  }

  const PlotStudy& study_;
  const std::vector<size_t>& parameters_;
  const ValueAxis& metric_;
  Chart chart_;
  bool has_gaps_ = false;
};

std::vector<track::Picture> draw_parallel(const PlotStudy& study, const PlotOptions& options) {
  std::vector<double> finite;
  for (const double result : study.results) {
    if (std::isfinite(result)) finite.push_back(result);
  }
  std::vector<size_t> parameters =
      options.parameters.empty() ? varying_parameters(study) : options.parameters;
  if (options.parameters.empty() && parameters.size() > kMostAxes) parameters.resize(kMostAxes);
  if (finite.empty() || parameters.empty()) {
    const std::string why = finite.empty()
                                ? concat("No trial has a finite ", study.facts.metric, " yet.")
                                : "All trials have the same parameters.";
    return {empty_chart("Parallel coordinates", why, kWideWidth)};
  }
  const ValueAxis metric(study.facts.metric, finite);
  return {Parallel(study, parameters, metric).draw()};
}

}  // namespace

extern constinit const PlotEntry parallel_entry{
    "parallel",
    "a line per trial through its parameters, coloured by its result",
    30,
    &draw_parallel};

}  // namespace muster::tune
