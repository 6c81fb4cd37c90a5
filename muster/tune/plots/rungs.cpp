// How many trials came to each rung of the scheduler, and what became of them there.
#include <algorithm>
#include <array>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"
#include "muster/tune/plot/rung_counts.h"

namespace muster::tune {
namespace {

using track::Ink;
using track::Shape;

constexpr double kRungsHeight = 230;

/// A part of a bar, from below.
struct RungPart {
  int64_t RungCount::*count;
  Ink ink;
  std::string_view words;
};
const std::array<RungPart, 5> kRungParts = {
    {{&RungCount::went_on, track::series_ink(0), "went on"},
     {&RungCount::complete, track::series_ink(2), "complete"},
     {&RungCount::open, track::series_ink(1), "there now"},
     {&RungCount::stopped, Ink::kAxis, "stopped"},
     {&RungCount::failed, Ink::kBad, "failed"}}};

void draw_bar(Chart& chart, const RungCount& rung, double from, double to, double most) {
  double height = 0;
  for (const RungPart& part : kRungParts) {
    const auto count = static_cast<double>(rung.*part.count);
    if (count == 0) continue;
    chart.add(track::BoxCommand{.x = chart.px(from),
                                .y = chart.py((height + count) / most),
                                .width = chart.px(to) - chart.px(from),
                                .height = chart.py(0) - chart.py(count / most),
                                .fill = part.ink});
    height += count;
  }
  chart.text(
      chart.px((from + to) / 2),
      chart.py(height / most) - 4,
      rung.went_on > 0 ? concat(rung.came, " \u2192 ", rung.went_on) : std::to_string(rung.came),
      track::Anchor::kMiddle);
}

std::vector<track::Picture> draw_rungs(const PlotStudy& study, const PlotOptions&) {
  const std::vector<RungCount> rungs = rung_counts(study);
  const std::string title = "Rungs";
  if (rungs.empty()) return {empty_chart(title, "No trial has reported a step yet.", kWideWidth)};
  int64_t came = 1;
  for (const RungCount& rung : rungs) came = std::max(came, rung.came);
  const double most = 1.12 * static_cast<double>(came);  // room for the numbers
  Chart chart(kWideWidth, kRungsHeight, title);
  chart.note("how many trials came to each step, and how many went on");
  ChartAxis x{.title = "step"}, y{.title = "trials"};
  for (size_t i = 0; i < rungs.size(); ++i)
    x.ticks.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(rungs.size()),
                       std::to_string(rungs[i].t)});
  const std::vector<double> ticks = track::nice_ticks(0, most, 5);
  const auto labels = track::tick_labels(ticks);
  for (size_t i = 0; i < ticks.size(); ++i) y.ticks.push_back({ticks[i] / most, labels[i]});
  chart.set_axes(x, y);
  std::vector<LegendEntry> legend;
  for (const RungPart& part : kRungParts) {
    if (std::ranges::any_of(rungs, [&](const RungCount& rung) { return rung.*part.count > 0; }))
      legend.push_back({Shape::kDot, part.ink, std::string(part.words)});
  }
  chart.legend(legend);
  const double slot = 1 / static_cast<double>(rungs.size());
  for (size_t i = 0; i < rungs.size(); ++i) {
    const double from = static_cast<double>(i) * slot;
    draw_bar(chart, rungs[i], from + 0.15 * slot, from + 0.85 * slot, most);
  }
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry rungs_entry{
    "rungs", "how many trials came to each rung, and which went on", 34, &draw_rungs};

}  // namespace muster::tune
