// When each trial ran.
#include <algorithm>
#include <cmath>

#include "muster/base/local_time.h"
#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

using track::Ink;
using track::Shape;

constexpr size_t kMostTimelineRows = 400;
constexpr double kLeastHeight = 160, kMostHeight = 560;

struct TimeUnit {
  double seconds;
  std::string_view name;
};
TimeUnit unit_for(double seconds) {
  if (seconds < 180) return {1, "seconds"};
  if (seconds < 3 * 3600) return {60, "minutes"};
  if (seconds < 4 * 86400) return {3600, "hours"};
  return {86400, "days"};
}

/// The attempts that began, the last one up to now if it runs.
std::vector<TrialHistory::Span> spans_of(const TrialHistory& trial, double now_s) {
  std::vector<TrialHistory::Span> spans;
  for (size_t i = 0; i < trial.ran.size(); ++i) {
    TrialHistory::Span span = trial.ran[i];
    if (span.from_s <= 0) continue;
    const double next_s = i + 1 < trial.ran.size() ? trial.ran[i + 1].from_s : now_s;
    if (span.to_s <= 0) span.to_s = trial.state == TrialState::kRunning ? next_s : span.from_s;
    span.to_s = std::max(span.to_s, span.from_s);
    spans.push_back(span);
  }
  return spans;
}

Ink ink_of(TrialState state) {
  switch (state) {
    case TrialState::kComplete:
      return track::series_ink(0);
    case TrialState::kPruned:
      return track::series_ink(1);
    case TrialState::kFailed:
      return Ink::kBad;
    case TrialState::kRunning:
      return track::series_ink(2);
    default:
      return track::series_ink(3);
  }
}

std::vector<LegendEntry> states_legend(const PlotStudy& study) {
  constexpr std::pair<TrialState, std::string_view> kStates[] = {
      {TrialState::kComplete, "complete"},
      {TrialState::kPruned, "stopped early"},
      {TrialState::kFailed, "failed"},
      {TrialState::kRunning, "running"},
      {TrialState::kPaused, "paused"}};
  std::vector<LegendEntry> legend;
  for (const auto& [kind, words] : kStates) {
    const TrialState state = kind;  // clang 14 captures no bindings
    if (std::ranges::any_of(study.trials, [&](const auto& trial) { return trial.state == state; }))
      legend.push_back({Shape::kDot, ink_of(state), std::string(words)});
  }
  return legend;
}

/// Labels of some rows, from above.
ChartAxis row_axis(const PlotStudy& study, const std::vector<size_t>& rows) {
  ChartAxis axis{.title = "trial"};
  const size_t stride = 1 + (rows.size() - 1) / 12;
  for (size_t r = 0; r < rows.size(); r += stride)
    axis.ticks.push_back({1 - (static_cast<double>(r) + 0.5) / static_cast<double>(rows.size()),
                          trial_label(study.trials[rows[r]])});
  std::ranges::reverse(axis.ticks);
  return axis;
}

std::vector<track::Picture> draw_timeline(const PlotStudy& study, const PlotOptions&) {
  double from_s = INFINITY, to_s = -INFINITY;
  for (const TrialHistory& trial : study.trials) {
    for (const auto& span : spans_of(trial, study.now_s)) {
      from_s = std::min(from_s, span.from_s);
      to_s = std::max(to_s, span.to_s);
    }
  }
  std::vector<size_t> rows = shown_trials(study, kMostTimelineRows);
  std::erase_if(rows, [&](size_t i) { return spans_of(study.trials[i], study.now_s).empty(); });
  if (rows.empty()) return {empty_chart("Timeline", "No trial has begun yet.", kWideWidth)};
  const double length_s = std::max(to_s - from_s, 1e-3);
  const TimeUnit unit = unit_for(length_s);
  const double row_count = static_cast<double>(rows.size());
  Chart chart(kWideWidth, std::clamp(100 + 9 * row_count, kLeastHeight, kMostHeight), "Timeline");
  ChartAxis x{.title = concat(unit.name, " since ", local_time(from_s, "%Y-%m-%d %H:%M:%S"))};
  const std::vector<double> ticks = track::nice_ticks(0, length_s / unit.seconds, 12);
  const auto labels = track::tick_labels(ticks);
  for (size_t i = 0; i < ticks.size(); ++i)
    x.ticks.push_back({ticks[i] * unit.seconds / length_s, labels[i]});
  chart.set_axes(x, row_axis(study, rows));
  chart.note(thinned_note(study, rows.size()));
  chart.legend(states_legend(study));
  const double row_height = (chart.bottom() - chart.top()) / row_count;
  for (size_t r = 0; r < rows.size(); ++r) {
    const TrialHistory& trial = study.trials[rows[r]];
    for (const auto& span : spans_of(trial, study.now_s)) {
      const double left = chart.px((span.from_s - from_s) / length_s);
      const double right = chart.px((span.to_s - from_s) / length_s);
      chart.add(track::BoxCommand{.x = left,
                                  .y = chart.top() + (static_cast<double>(r) + 0.1) * row_height,
                                  .width = std::max(right - left, 0.8),
                                  .height = 0.8 * row_height,
                                  .fill = ink_of(trial.state),
                                  .item = static_cast<int64_t>(rows[r])});
    }
  }
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry timeline_entry{
    "timeline", "when each trial ran", 38, &draw_timeline};

}  // namespace muster::tune
