#include "muster/track/page/line.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/text.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

int column_of(double x, double x_lo, double x_hi, int columns) {
  if (x_hi <= x_lo) return 0;
  const double at = (x - x_lo) / (x_hi - x_lo) * columns;
  return static_cast<int>(std::clamp(at, 0.0, columns - 1.0));
}

/// The points of each column that has any.
std::vector<std::span<const Point>> in_columns(std::span<const Point> points,
                                               double x_lo,
                                               double x_hi,
                                               int columns) {
  std::vector<std::span<const Point>> out;
  for (size_t from = 0; from < points.size();) {
    const int column = column_of(points[from].x, x_lo, x_hi, columns);
    size_t end = from + 1;
    while (end < points.size() && column_of(points[end].x, x_lo, x_hi, columns) == column) ++end;
    out.push_back(points.subspan(from, end - from));
    from = end;
  }
  return out;
}

/// Adds first, lowest, highest and last of a column, each once, in the order of the curve.
void keep_extremes(std::span<const Point> column, std::vector<Point>& out) {
  const auto [low, high] = std::minmax_element(
      column.begin(), column.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  std::array<size_t, 4> keep = {0,
                                static_cast<size_t>(low - column.begin()),
                                static_cast<size_t>(high - column.begin()),
                                column.size() - 1};
  std::sort(keep.begin(), keep.end());
  const auto end = std::unique(keep.begin(), keep.end());
  std::for_each(keep.begin(), end, [&](size_t index) { out.push_back(column[index]); });
}

}  // namespace

std::vector<std::span<const Point>> stretches(std::span<const Point> points) {
  const auto finite = [](const Point& point) { return std::isfinite(point.y); };
  std::vector<std::span<const Point>> out;
  auto from = std::find_if(points.begin(), points.end(), finite);
  while (from != points.end()) {
    const auto end = std::find_if_not(from, points.end(), finite);
    out.emplace_back(from, end);
    from = std::find_if(end, points.end(), finite);
  }
  return out;
}

std::vector<Point> thin(std::span<const Point> points, double x_lo, double x_hi, int columns) {
  if (points.size() <= 2 * static_cast<size_t>(columns)) return {points.begin(), points.end()};
  std::vector<Point> out;
  for (const auto& column : in_columns(points, x_lo, x_hi, columns)) keep_extremes(column, out);
  return out;
}

std::vector<Point> bin_means(std::span<const Point> points, double x_lo, double x_hi, int bins) {
  std::vector<Point> out;
  for (const auto& column : in_columns(points, x_lo, x_hi, bins)) {
    Point mean;
    const auto share = 1 / static_cast<double>(column.size());
    for (const Point& point : column) {
      mean.x += point.x * share;
      mean.y += point.y * share;
    }
    out.push_back(mean);
  }
  return out;
}

std::string coordinate(double value) {
  std::string text = fixed(value, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string svg_text(std::string_view classes, double x, double y, std::string_view words) {
  return concat("<text class=\"",
                classes,
                "\" x=\"",
                coordinate(x),
                "\" y=\"",
                coordinate(y),
                "\">",
                escape_xml(words),
                "</text>\n");
}

std::string path_data(std::span<const Point> points) {
  std::string out;
  for (const Point& point : points) {
    out += out.empty() ? 'M' : 'L';
    out += coordinate(point.x) + ' ' + coordinate(point.y);
  }
  return out;
}

}  // namespace muster::track
