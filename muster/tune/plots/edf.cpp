// How many of the trials are as good as a value or better: two searches compared at a glance.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

/// Results of completed trials, or of all with one where none is complete.
std::vector<double> completed_results(const PlotStudy& study) {
  std::vector<double> complete, all;
  for (size_t i = 0; i < study.trials.size(); ++i) {
    if (std::isnan(study.results[i])) continue;
    all.push_back(study.results[i]);
    if (study.trials[i].state == TrialState::kComplete) complete.push_back(study.results[i]);
  }
  return complete.empty() ? all : complete;
}

std::vector<track::Picture> draw_edf(const PlotStudy& study, const PlotOptions&) {
  std::vector<double> results = completed_results(study);
  const std::string title = "Distribution of results";
  std::vector<double> finite;
  std::ranges::copy_if(
      results, std::back_inserter(finite), [](double result) { return std::isfinite(result); });
  if (finite.empty())
    return {empty_chart(title, concat("No trial has a finite ", study.facts.metric, " yet."))};
  std::ranges::sort(results);
  const ValueAxis x(metric_title(study), finite);
  Chart chart(kHalfWidth, kChartHeight, title);
  ChartAxis y{.title = "share of completed trials with at most this value"};
  for (int i = 0; i <= 4; ++i) y.ticks.push_back({i / 4.0, concat(25 * i, " %")});
  chart.set_axes(chart_axis(x, 6), y);
  chart.note(infinite_note(study));
  std::vector<track::Point> points = {{chart.left(), chart.bottom()}};
  for (size_t i = 0; i < results.size(); ++i) {
    if (i + 1 < results.size() && results[i + 1] == results[i]) continue;
    const double at = chart.px(x.at(results[i]));
    const double share = static_cast<double>(i + 1) / static_cast<double>(results.size());
    // A step that is less than half a pixel from the last is drawn with the next one.
    if (at - points.back().x < 0.5 && points.size() > 1 && i + 1 < results.size()) continue;
    points.push_back({at, points.back().y});
    points.push_back({at, chart.py(share)});
  }
  points.push_back({chart.right(), chart.top()});
  chart.add(
      track::LineCommand{.points = std::move(points), .ink = track::series_ink(0), .width = 2});
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry edf_entry{
    "edf", "which share of the trials came to which result", 33, &draw_edf};

}  // namespace muster::tune
