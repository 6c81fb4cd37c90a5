// The result of each trial, in the order in which they began, and the best so far.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

using track::Ink;

/// The steps of the best result so far, of trials that are over, or of all if none is: as best_of.
std::vector<track::Point> best_line(const PlotStudy& study,
                                    const Chart& chart,
                                    const ValueAxis& y) {
  const bool only_over = study.best && is_over(study.trials[*study.best].state);
  const double last = std::max(1.0, static_cast<double>(study.trials.size()) - 1);
  std::vector<track::Point> points;
  double best = NAN;
  for (size_t i = 0; i < study.trials.size(); ++i) {
    const double result = study.results[i];
    if (std::isnan(result) || (only_over && !is_over(study.trials[i].state)) ||
        is_beyond_constraints(study.trials[i]))
      continue;
    const Mode mode = study.facts.mode;
    if (!std::isnan(best) && score_of(result, mode) <= score_of(best, mode)) continue;
    const double x = chart.px(static_cast<double>(i) / last);
    if (!std::isnan(best)) points.push_back({x, chart.py(y.at(best))});
    points.push_back({x, chart.py(y.at(result))});
    best = result;
  }
  if (!std::isnan(best)) points.push_back({chart.right(), chart.py(y.at(best))});
  return points;
}

/// Numbers of trials where they are places in the order, as long as all are ours.
ChartAxis order_axis(const PlotStudy& study) {
  const double last = std::max(1.0, static_cast<double>(study.trials.size()) - 1);
  std::vector<double> ticks = track::nice_ticks(0, last, 12);
  std::erase_if(ticks, [](double tick) { return tick != std::floor(tick); });
  const auto labels = track::tick_labels(ticks);
  ChartAxis axis{.title = "trial, in the order in which they began"};
  for (size_t i = 0; i < ticks.size(); ++i) axis.ticks.push_back({ticks[i] / last, labels[i]});
  return axis;
}

std::vector<track::Picture> draw_history(const PlotStudy& study, const PlotOptions&) {
  const std::string title = concat("History of ", metric_title(study));
  std::vector<double> finite;
  for (const double result : study.results) {
    if (std::isfinite(result)) finite.push_back(result);
  }
  if (finite.empty()) {
    return {empty_chart(
        title, concat("No trial has a finite ", study.facts.metric, " yet."), kWideWidth)};
  }
  const ValueAxis y(study.facts.metric, finite);
  Chart chart(kWideWidth, kChartHeight, title);
  chart.set_axes(order_axis(study), chart_axis(y, 6));
  chart.note(both_notes(thinned_note(study, study.shown.size()), infinite_note(study)));
  auto legend = state_legend(study, track::series_ink(0));
  legend.push_back({track::Shape::kDiamond, track::series_ink(1), "best so far"});
  chart.legend(legend);
  const double last = std::max(1.0, static_cast<double>(study.trials.size()) - 1);
  for (const size_t i : study.shown) {
    const bool none = std::isnan(study.results[i]);
    if (none && !is_over(study.trials[i].state)) continue;  // it may have one yet
    trial_mark(chart,
               study,
               i,
               chart.px(static_cast<double>(i) / last),
               none ? chart.bottom() - 5 : chart.py(y.at(study.results[i])),
               track::series_ink(0));
  }
  chart.add(track::LineCommand{
      .points = best_line(study, chart, y), .ink = track::series_ink(1), .width = 2});
  if (study.best) {
    chart.add(track::MarkCommand{.x = chart.px(static_cast<double>(*study.best) / last),
                                 .y = chart.py(y.at(study.results[*study.best])),
                                 .shape = track::Shape::kDiamond,
                                 .ink = track::series_ink(1),
                                 .outlined = true,
                                 .item = static_cast<int64_t>(*study.best)});
  }
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry history_entry{
    "history", "the result of each trial, and the best so far", 10, &draw_history};

}  // namespace muster::tune
