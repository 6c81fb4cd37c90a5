// What charts have in common: a box with axes, ticks that fit, legends.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/track/picture/picture.h"
#include "muster/tune/plot/plot_study.h"

namespace muster::tune {

inline constexpr double kWideWidth = 940, kHalfWidth = 460;  ///< of pictures, in units
inline constexpr double kChartHeight = 290;

/// One axis of a chart.
struct ChartAxis {
  std::string title;  ///< of the axis, with its unit
  std::vector<AxisTick> ticks;
};

/// Of a metric, at most `most` ticks.
ChartAxis chart_axis(const ValueAxis& axis, int most);

/// A legend's entry: what is drawn, and what it means.
struct LegendEntry {
  track::Shape shape = track::Shape::kDot;
  track::Ink ink = track::Ink::kText;
  std::string words;
};

/// A picture with a title, and a box in it that places 0 … 1 are mapped to.
class Chart {
 public:
  Chart(double width, double height, const std::string& title);

  /// Draws the axes; the box is what is left beside the labels. Labels that would touch each other
  /// are left out, long ones are cut.
  void set_axes(const ChartAxis& x, const ChartAxis& y);

  /// Without axes: the box is inset by these.
  void set_box(double left, double right, double top, double bottom);

  void legend(std::span<const LegendEntry> entries);

  /// A bar of the scale's colours, with words at both ends, at the right of the title.
  void scale_legend(const std::string& low, const std::string& high);

  /// A line below the title.
  void note(const std::string& words);

  double px(double place) const { return left_ + place * (right_ - left_); }
  double py(double place) const { return bottom_ - place * (bottom_ - top_); }
  double left() const { return left_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return bottom_; }

  template <class Command>
  void add(Command command) {
    picture_.add(std::move(command));
  }
  void text(double x,
            double y,
            std::string words,
            track::Anchor anchor = track::Anchor::kStart,
            track::Ink ink = track::Ink::kText,
            bool halo = false);
  void line(double x1, double y1, double x2, double y2, track::Ink ink, double width = 1);

  track::Picture take() && { return std::move(picture_); }

 private:
  void draw_y(const ChartAxis& y);
  void draw_x(const ChartAxis& x);

  track::Picture picture_;
  double left_, right_, top_, bottom_;
  double legend_right_;
};

/// Trials of one category beside each other: `place` moved within 0.6 of the category's `slot`, the
/// same each time; itself where the slot is 0.
double spread(double place, double slot, size_t trial);

/// The legend of a colour by the trial's result: worst to best.
void result_legend(Chart& chart, const PlotStudy& study);

/// Draws the trial at a place of the chart, by its state: a dot, a ring (stopped early, not over) or,
/// without result, a cross.
void trial_mark(
    Chart& chart, const PlotStudy& study, size_t trial, double x, double y, track::Ink ink);

/// The legend of trial_mark for the states that the trials have.
std::vector<LegendEntry> state_legend(const PlotStudy& study, track::Ink ink);

/// What a picture says instead of a chart.
track::Picture empty_chart(const std::string& title,
                           const std::string& why,
                           double width = kHalfWidth);

}  // namespace muster::tune
