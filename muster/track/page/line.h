// A curve on its way to the page: cut at gaps, thinned, and written as a path.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::track {

struct Point {
  double x = 0;
  double y = 0;

  bool operator==(const Point&) const = default;
};

/// The stretches of a curve between points whose y is not finite. Stretches are never empty.
std::vector<std::span<const Point>> stretches(std::span<const Point> points);

/// A curve with at most 4 points per column of [x_lo, x_hi] divided into `columns`: the first, the
/// lowest, the highest and the last of each, in their order, so that what is drawn with lines as
/// wide as a column stays the same to the pixel and no extreme is lost. Points sorted by x; curves
/// of at most 2 · columns points stay as they are.
/// Source: Jugel et al. 2014, "M4: A Visualization-Oriented Time Series Data Aggregation".
std::vector<Point> thin(std::span<const Point> points, double x_lo, double x_hi, int columns);

/// The mean x and y of the points in each of `bins` equal parts of [x_lo, x_hi] that has any: the
/// trend of a noisy curve. Finite points sorted by x.
std::vector<Point> bin_means(std::span<const Point> points, double x_lo, double x_hi, int bins);

/// SVG path data through the points, "M1 2L3.5 4", to a tenth of a unit.
std::string path_data(std::span<const Point> points);

/// A coordinate for SVG: at most one digit behind the point, no "-0".
std::string coordinate(double value);

/// Words in a drawing, of these classes: <text class="t end" x="…" y="…">…</text>, and a line's end.
std::string svg_text(std::string_view classes, double x, double y, std::string_view words);

}  // namespace muster::track
