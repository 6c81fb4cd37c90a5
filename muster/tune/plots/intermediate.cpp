// What each trial reported, step by step.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

using track::Ink;

constexpr size_t kMostCurves = 300;
constexpr int kCurveColumns = 200;  // a curve has at most 4 points in each
constexpr double kIntermediateHeight = 330;

std::vector<track::Point> reported(const TrialHistory& trial, const std::string& metric) {
  std::vector<track::Point> points;
  for (const TrialHistory::Row& row : trial.rows) {
    if (const double* value = find_metric(row.metrics, metric))
      points.push_back({static_cast<double>(row.t), *value});
  }
  std::ranges::stable_sort(points, {}, &track::Point::x);
  return points;
}

/// A trial's curve, cut where a value is not finite, with a mark at its end.
void draw_curve(Chart& chart,
                const PlotStudy& study,
                size_t trial,
                std::span<const track::Point> points,
                const ValueAxis& x,
                const ValueAxis& y) {
  const auto at = [&](const track::Point& point) {
    return track::Point{chart.px(x.at(point.x)), chart.py(y.at(point.y))};
  };
  const bool best = study.best == trial;
  const Ink ink = track::scale_ink(study.merits[trial]);
  const auto item = static_cast<int64_t>(trial);
  for (const auto stretch : track::stretches(points)) {
    std::vector<track::Point> line =
        track::thin(stretch, points.front().x, points.back().x, kCurveColumns);
    for (track::Point& point : line) point = at(point);
    if (line.size() == 1)
      chart.add(track::MarkCommand{
          .x = line[0].x, .y = line[0].y, .ink = ink, .radius = 1.8, .item = item});
    else
      chart.add(track::LineCommand{.points = std::move(line),
                                   .ink = ink,
                                   .width = best ? 2.8 : 1.2,
                                   .opacity = best ? 1 : 0.75,
                                   .item = item});
  }
  const auto last = std::ranges::find_if(
      points.rbegin(), points.rend(), [](const auto& point) { return std::isfinite(point.y); });
  if (last == points.rend()) return;
  const TrialState state = study.trials[trial].state;
  const auto [end_x, end_y] = at(*last);
  if (state == TrialState::kFailed || std::isnan(study.results[trial]))
    chart.add(track::MarkCommand{
        .x = end_x, .y = end_y, .shape = track::Shape::kCross, .ink = Ink::kBad, .item = item});
  else if (state == TrialState::kPruned)
    chart.add(track::MarkCommand{
        .x = end_x, .y = end_y, .shape = track::Shape::kBar, .ink = ink, .item = item});
}

struct Curve {
  size_t trial;
  std::vector<track::Point> points;
};

std::vector<Curve> curves_of_trials(const PlotStudy& study, std::span<const size_t> trials) {
  std::vector<Curve> curves;
  for (const size_t i : trials) {
    std::vector<track::Point> points = reported(study.trials[i], study.facts.metric);
    if (!points.empty()) curves.push_back({i, std::move(points)});
  }
  // The best lie above; those without result below.
  std::ranges::stable_sort(curves, {}, [&](const Curve& curve) {
    const double merit = study.merits[curve.trial];
    return std::isnan(merit) ? -1 : merit;
  });
  return curves;
}

std::vector<track::Picture> draw_intermediate(const PlotStudy& study, const PlotOptions&) {
  const std::string title = concat("Reports of ", metric_title(study));
  const std::vector<size_t> trials = shown_trials(study, kMostCurves);
  const std::vector<Curve> curves = curves_of_trials(study, trials);
  std::vector<double> steps, values;
  for (const Curve& curve : curves) {
    for (const track::Point& point : curve.points) {
      steps.push_back(point.x);
      if (std::isfinite(point.y)) values.push_back(point.y);
    }
  }
  if (values.empty())
    return {empty_chart(title, "No trial has reported a finite value yet.", kWideWidth)};
  const std::vector<Value> axis_steps(steps.begin(), steps.end());
  const ValueAxis x("step", "uniform(0, 1)", axis_steps);
  const ValueAxis y(study.facts.metric, values);
  Chart chart(kWideWidth, kIntermediateHeight, title);
  chart.set_axes(chart_axis(x, 12), chart_axis(y, 6));
  chart.note(thinned_note(study, trials.size()));
  result_legend(chart, study);
  const std::vector<LegendEntry> legend = {{track::Shape::kBar, Ink::kText, "stopped early"},
                                           {track::Shape::kCross, Ink::kBad, "failed"}};
  chart.legend(legend);
  for (const Curve& curve : curves) draw_curve(chart, study, curve.trial, curve.points, x, y);
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry intermediate_entry{
    "intermediate", "what each trial reported, step by step", 20, &draw_intermediate};

}  // namespace muster::tune
