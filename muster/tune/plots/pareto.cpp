// Results of several objectives against each other, and the front.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

constexpr size_t kMostPairs = 6;

/// A number of both objectives, and over.
bool has_pair(const TrialHistory& trial, size_t x, size_t y) {
  const std::vector<double>& results = trial.goals.results;
  return is_over(trial.state) && trial.state != TrialState::kFailed && !std::isnan(results[x]) &&
         !std::isnan(results[y]);
}

/// Two numbers that have a place on axes.
bool has_finite_pair(const TrialHistory& trial, size_t x, size_t y) {
  return has_pair(trial, x, y) && std::isfinite(trial.goals.results[x]) &&
         std::isfinite(trial.goals.results[y]);
}

std::string objective_title(const Objective& objective) {
  return concat(objective.metric,
                objective.mode == Mode::kMax ? " (higher is better)" : " (lower is better)");
}

ValueAxis axis_of(const PlotStudy& study, size_t of, size_t x, size_t y) {
  std::vector<double> numbers;
  for (const TrialHistory& trial : study.trials) {
    if (has_pair(trial, x, y) && std::isfinite(trial.goals.results[of]))
      numbers.push_back(trial.goals.results[of]);
  }
  return {objective_title(study.facts.goals.objectives[of]), numbers};
}

/// Steps through the front of two objectives: what lies behind them is dominated.
std::vector<track::Point> front_steps(const PlotStudy& study,
                                      const Chart& chart,
                                      const ValueAxis& x,
                                      const ValueAxis& y) {
  std::vector<std::pair<double, double>> ends;
  for (const size_t i : study.front) {
    const std::vector<double>& results = study.trials[i].goals.results;
    ends.emplace_back(results[0], results[1]);
  }
  std::ranges::sort(ends);
  const bool first_is_min = study.facts.goals.objectives[0].mode == Mode::kMin;
  std::vector<track::Point> points;
  for (const auto& [at, value] : ends) {
    const track::Point end = {chart.px(x.at(at)), chart.py(y.at(value))};
    // The corner is where both are at their worse number.
    if (!points.empty())
      points.push_back(first_is_min ? track::Point{end.x, points.back().y}
                                    : track::Point{points.back().x, end.y});
    points.push_back(end);
  }
  return points;
}

void draw_pair(const PlotStudy& study, Chart& chart, size_t x, size_t y) {
  const ValueAxis across = axis_of(study, x, x, y), up = axis_of(study, y, x, y);
  chart.set_axes(chart_axis(across, 6), chart_axis(up, 6));
  const auto is_beyond_axes = [&](const TrialHistory& trial) {
    return has_pair(trial, x, y) && !has_finite_pair(trial, x, y);
  };
  chart.note(both_notes(thinned_note(study, study.shown.size()),
                        std::ranges::any_of(study.trials, is_beyond_axes) ? kAtTheEdge : ""));
  std::vector<LegendEntry> legend = {
      {track::Shape::kDot, track::series_ink(0), "behind the front"},
      {track::Shape::kDiamond, track::series_ink(1), "on the front"}};
  if (!study.facts.goals.constraints.empty())
    legend.push_back({track::Shape::kCross, track::series_ink(0), "beyond the constraints"});
  chart.legend(legend);
  if (study.facts.goals.objectives.size() == 2)
    chart.add(track::LineCommand{
        .points = front_steps(study, chart, across, up), .ink = track::series_ink(1), .width = 2});
  std::vector<size_t> drawn = study.shown;
  std::erase_if(drawn, [&](size_t i) { return std::ranges::binary_search(study.front, i); });
  drawn.insert(drawn.end(), study.front.begin(), study.front.end());
  for (const size_t i : drawn) {
    const TrialHistory& trial = study.trials[i];
    if (!has_pair(trial, x, y)) continue;
    const bool on_front = std::ranges::binary_search(study.front, i);
    const auto shape = on_front                       ? track::Shape::kDiamond
                       : is_beyond_constraints(trial) ? track::Shape::kCross
                                                      : track::Shape::kDot;
    chart.add(track::MarkCommand{.x = chart.px(across.at(trial.goals.results[x])),
                                 .y = chart.py(up.at(trial.goals.results[y])),
                                 .shape = shape,
                                 .ink = track::series_ink(on_front ? 1 : 0),
                                 .outlined = on_front,
                                 .item = static_cast<int64_t>(i)});
  }
}

std::vector<track::Picture> draw_pareto(const PlotStudy& study, const PlotOptions&) {
  const std::string title = "Pareto front";
  const size_t objectives = study.facts.goals.objectives.size();
  if (objectives < 2)
    return {empty_chart(title, "The study has one objective: its best trial is the front.")};
  std::vector<track::Picture> out;
  for (size_t x = 0; x < objectives; ++x) {
    for (size_t y = x + 1; y < objectives && out.size() < kMostPairs; ++y) {
      const bool any = std::ranges::any_of(
          study.trials, [&](const TrialHistory& trial) { return has_finite_pair(trial, x, y); });
      if (!any) {
        out.push_back(empty_chart(title, "No trial has ended with a finite number of each yet."));
        continue;
      }
      Chart chart(objectives == 2 ? kWideWidth : kHalfWidth, kChartHeight, title);
      draw_pair(study, chart, x, y);
      out.push_back(std::move(chart).take());
    }
  }
  return out;
}

}  // namespace

extern constinit const PlotEntry pareto_entry{
    "pareto", "objectives against each other, and the front", 5, &draw_pareto, true};

}  // namespace muster::tune
