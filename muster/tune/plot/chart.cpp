#include "muster/tune/plot/chart.h"

#include <algorithm>
#include <cmath>

#include "muster/base/text.h"

namespace muster::tune {

using track::Anchor;
using track::Ink;
using track::Shape;

namespace {

constexpr double kChartTop = 60, kChartBottom = 40, kChartRight = 12;
constexpr double kWidestLabel = 96;  // of a category
constexpr double kGoldenShare = 0.6180339887498949;
constexpr size_t kManyMarks = 600;  // are smaller
constexpr double kLabelRoom = 10;   // between labels

/// So many labels beside each other touch: every which one fits.
size_t label_stride(std::span<const AxisTick> ticks, double length, bool across) {
  double widest = 0;
  for (const AxisTick& tick : ticks) {
    const double width = std::min(track::text_width(tick.label), kWidestLabel);
    widest = std::max(widest, across ? width + kLabelRoom : 14);
  }
  double nearest = 1;
  for (size_t i = 1; i < ticks.size(); ++i)
    nearest = std::min(nearest, ticks[i].place - ticks[i - 1].place);
  if (ticks.size() < 2 || nearest <= 0) return 1;
  return static_cast<size_t>(std::max(1.0, std::ceil(widest / (nearest * length))));
}

}  // namespace

ChartAxis chart_axis(const ValueAxis& axis, int most) {
  return {axis.is_log() ? axis.name() + ", logarithmic" : axis.name(), axis.ticks(most)};
}

Chart::Chart(double width, double height, const std::string& title)
    : picture_(width, height, title),
      left_(0),
      right_(width - kChartRight),
      top_(kChartTop),
      bottom_(height - kChartBottom),
      legend_right_(width - kChartRight) {
  add(track::TextCommand{.x = 0,
                         .y = 18,
                         .text = track::cut_text(title, width - 10, 13, true),
                         .ink = Ink::kStrong,
                         .size = 13,
                         .bold = true});
}

void Chart::set_axes(const ChartAxis& x, const ChartAxis& y) {
  double widest = 20;
  for (const AxisTick& tick : y.ticks)
    widest = std::max(widest, std::min(track::text_width(tick.label), kWidestLabel));
  left_ = widest + 12;
  draw_y(y);
  draw_x(x);
}

void Chart::draw_y(const ChartAxis& y) {
  const size_t stride = label_stride(y.ticks, bottom_ - top_, false);
  for (size_t i = 0; i < y.ticks.size(); i += stride) {
    const double at = py(y.ticks[i].place);
    line(left_, at, right_, at, Ink::kGrid);
    text(left_ - 7, at + 4, track::cut_text(y.ticks[i].label, kWidestLabel), Anchor::kEnd);
  }
  text(0, top_ - 10, track::cut_text(y.title, (right_ - left_) * 0.9), Anchor::kStart, Ink::kDim);
}

void Chart::draw_x(const ChartAxis& x) {
  const size_t stride = label_stride(x.ticks, right_ - left_, true);
  for (size_t i = 0; i < x.ticks.size(); i += stride) {
    const double at = px(x.ticks[i].place);
    line(at, bottom_, at, bottom_ + 4, Ink::kAxis);
    text(at, bottom_ + 17, track::cut_text(x.ticks[i].label, kWidestLabel), Anchor::kMiddle);
  }
  line(left_, bottom_, right_, bottom_, Ink::kAxis);
  text((left_ + right_) / 2,
       bottom_ + 33,
       track::cut_text(x.title, right_ - left_),
       Anchor::kMiddle,
       Ink::kDim);
}

void Chart::set_box(double left, double right, double top, double bottom) {
  left_ = left;
  right_ = picture_.width() - right;
  top_ = top;
  bottom_ = picture_.height() - bottom;
}

void Chart::legend(std::span<const LegendEntry> entries) {
  for (size_t i = entries.size(); i-- > 0;) {
    const LegendEntry& entry = entries[i];
    const double width = track::text_width(entry.words);
    text(legend_right_ - width, top_ - 10, entry.words);
    add(track::MarkCommand{
        .x = legend_right_ - width - 8, .y = top_ - 14, .shape = entry.shape, .ink = entry.ink});
    legend_right_ -= width + 26;
  }
}

void Chart::scale_legend(const std::string& low, const std::string& high) {
  constexpr double kBarWidth = 6, kBarHeight = 9;
  text(legend_right_ - track::text_width(high), 18, high);
  double at = legend_right_ - track::text_width(high) - 6 - track::kScaleInks * kBarWidth;
  text(at - 6, 18, low, Anchor::kEnd);
  for (int i = 0; i < track::kScaleInks; ++i, at += kBarWidth) {
    add(track::BoxCommand{.x = at,
                          .y = 10,
                          .width = kBarWidth,
                          .height = kBarHeight,
                          .fill = track::scale_ink((i + 0.5) / track::kScaleInks),
                          .crisp = true});
  }
}

void Chart::note(const std::string& words) {
  if (words.empty()) return;
  text(0, 33, track::cut_text(words, picture_.width()), Anchor::kStart, Ink::kDim);
}

void Chart::text(double x, double y, std::string words, Anchor anchor, Ink ink, bool halo) {
  add(track::TextCommand{
      .x = x, .y = y, .text = std::move(words), .ink = ink, .anchor = anchor, .halo = halo});
}

void Chart::line(double x1, double y1, double x2, double y2, Ink ink, double width) {
  add(track::LineCommand{.points = {{x1, y1}, {x2, y2}}, .ink = ink, .width = width});
}

double spread(double place, double slot, size_t trial) {
  // Multiples of the golden ratio lie apart.
  const double at = std::fmod(static_cast<double>(trial) * kGoldenShare, 1.0) - 0.5;
  return place + 0.6 * slot * at;
}

void result_legend(Chart& chart, const PlotStudy& study) {
  double low = NAN, high = NAN;
  for (const double result : study.results) {
    if (std::isnan(result)) continue;
    low = std::isnan(low) ? result : std::min(low, result);
    high = std::isnan(high) ? result : std::max(high, result);
  }
  if (std::isnan(low)) return;
  const bool max = study.facts.mode == Mode::kMax;
  chart.scale_legend(concat("worst ", track::readable(max ? low : high)),
                     concat(track::readable(max ? high : low), " best"));
}

void trial_mark(Chart& chart, const PlotStudy& study, size_t trial, double x, double y, Ink ink) {
  track::MarkCommand mark{.x = x, .y = y, .ink = ink, .item = static_cast<int64_t>(trial)};
  if (study.shown.size() > kManyMarks) mark.radius = 2;
  const TrialState state = study.trials[trial].state;
  if (std::isnan(study.results[trial])) {
    mark.shape = Shape::kCross;
    mark.ink = state == TrialState::kFailed || is_over(state) ? Ink::kBad : Ink::kDim;
  } else if (state != TrialState::kComplete) {
    mark.shape = Shape::kRing;
    mark.radius -= 0.5;
  }
  chart.add(mark);
}

std::vector<LegendEntry> state_legend(const PlotStudy& study, Ink ink) {
  bool complete = false, pruned = false, open = false, bad = false;
  for (size_t i = 0; i < study.trials.size(); ++i) {
    const TrialState state = study.trials[i].state;
    const bool none = std::isnan(study.results[i]);
    bad |= none && is_over(state);
    complete |= !none && state == TrialState::kComplete;
    pruned |= !none && state == TrialState::kPruned;
    open |= !none && !is_over(state);
  }
  std::vector<LegendEntry> out;
  if (complete) out.push_back({Shape::kDot, ink, "complete"});
  if (pruned || open) {
    out.push_back({Shape::kRing,
                   ink,
                   pruned && open ? "stopped early, or not over"
                   : pruned       ? "stopped early"
                                  : "not over"});
  }
  if (bad) out.push_back({Shape::kCross, Ink::kBad, "no result"});
  return out;
}

track::Picture empty_chart(const std::string& title, const std::string& why, double width) {
  Chart chart(width, 64, title);
  chart.text(0, 40, why, Anchor::kStart, Ink::kDim);
  return std::move(chart).take();
}

}  // namespace muster::tune
