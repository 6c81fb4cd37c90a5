#include "muster/track/page/panel_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/page/axis.h"
#include "muster/track/page/line.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

// Widths of text are guessed: nothing here measures letters. 11 units high, 6.3 wide covers the
// wide sans-serif fonts.
constexpr double kLetter = 6.3;
constexpr double kTop = 50;
constexpr double kBottom = 38;
constexpr double kRight = 10;
constexpr double kEpochWidth = 42;  // the word "epoch" beside the plot
constexpr int kYTicks = 5;
constexpr int kColours = 5;
constexpr double kEpochSpacing = 28;
constexpr double kValueLetters = 8;  // " -1.234k"
constexpr size_t kDotsUpTo = 40;     // a curve of so few points shows each
constexpr int kMeans = 120;          // points of the mean of a dense curve
constexpr double kLogDecades = 2;

/// Colours of phases that Muster writes stay the same in every panel.
int colour_of(std::string_view name, size_t index) {
  constexpr std::array<std::string_view, 3> kPhases = {"train", "validate", "test"};
  const auto found = std::find(kPhases.begin(), kPhases.end(), name);
  return static_cast<int>(found != kPhases.end() ? static_cast<size_t>(found - kPhases.begin())
                                                 : 3 + index % (kColours - 3));
}

struct Range {
  double lo = INFINITY;
  double hi = -INFINITY;

  void add(double value) {
    if (!std::isfinite(value)) return;
    lo = std::min(lo, value);
    hi = std::max(hi, value);
  }
  bool empty() const { return lo > hi; }
};

Axis y_axis(const Panel& panel) {
  Range range;
  for (const Series& series : panel.series) {
    for (const Point& point : series.points) range.add(point.y);
  }
  if (range.empty()) return linear_axis(0, 1, kYTicks);
  if (panel.is_share && range.lo >= 0 && range.hi <= 1)
    return share_axis(range.lo, range.hi, kYTicks);
  const bool wide = range.lo > 1e-290 && std::log10(range.hi) - std::log10(range.lo) > kLogDecades;
  return panel.log_if_wide && wide ? log_axis(range.lo, range.hi, kYTicks)
                                   : linear_axis(range.lo, range.hi, kYTicks);
}

/// From 0, or from a later first step if the run began there; the same for all panels of a run
/// when `epochs` are.
Axis x_axis(const Panel& panel, std::span<const EpochMark> epochs, int most) {
  Range range;
  for (const Series& series : panel.series) {
    for (const Point& point : series.points) range.add(point.x);
  }
  for (const EpochMark& mark : epochs) range.add(static_cast<double>(mark.last_step));
  if (range.empty()) return exact_axis(0, 1, most);
  const bool from_start =
      epochs.empty() || epochs.front().epoch <= 1;  // none is over: in the first
  if (from_start || range.lo < 0.3 * range.hi) range.lo = 0;
  return exact_axis(range.lo, range.hi, most);
}

/// The drawing of one panel: axes, and the box they map to.
class Drawing {
 public:
  Drawing(const Panel& panel, std::span<const EpochMark> epochs, const PanelSize& size)
      : panel_(panel), epochs_(epochs), size_(size), y_(y_axis(panel)) {
    size_t letters = 0;
    for (const std::string& label : y_.labels) letters = std::max(letters, display_width(label));
    left_ = std::max(kEpochWidth, 10 + kLetter * static_cast<double>(letters));
    x_ = x_axis(panel, epochs, static_cast<int>(width() / 60));
  }

  std::string svg(bool hover) const {
    return title() + grid() + epoch_marks() + curves() + (hover ? hover_layer() : "");
  }

 private:
  double width() const { return size_.width - left_ - kRight; }
  double height() const { return size_.height - kTop - kBottom; }
  double bottom() const { return size_.height - kBottom; }
  double px(double x) const { return left_ + x_.place(x) * width(); }
  double py(double y) const { return bottom() - std::clamp(y_.place(y), -0.1, 1.1) * height(); }

  static std::string line(std::string_view type, double x1, double y1, double x2, double y2) {
    return concat("<path class=\"",
                  type,
                  "\" d=\"M",
                  coordinate(x1),
                  ' ',
                  coordinate(y1),
                  'L',
                  coordinate(x2),
                  ' ',
                  coordinate(y2),
                  "\"/>\n");
  }

  /// Title at the left; at the right the legend, each name with its last value.
  std::string title() const {
    std::string legend;
    double right = size_.width - kRight;
    for (size_t i = panel_.series.size(); i-- > 0;) {
      const Series& series = panel_.series[i];
      const double letters = static_cast<double>(display_width(series.name)) + kValueLetters;
      if (right - kLetter * letters < left_ + 40) break;  // no room; the curve is there
      const std::string value = series.points.empty() ? "" : readable(series.points.back().y);
      legend += concat("<text class=\"k end c",
                       colour_of(series.name, i),
                       "\" x=\"",
                       coordinate(right),
                       "\" y=\"20\">",
                       escape_xml(series.name),
                       " <tspan class=\"v\" data-s=\"",
                       i,
                       "\">",
                       value,
                       "</tspan></text>\n");
      right -= kLetter * letters + 14;
    }
    return svg_text(
               "title",
               0,
               20,
               cut(panel_.title + (panel_.unit.empty() ? "" : " (" + panel_.unit + ")"), right)) +
           legend;
  }

  /// Words cut to a width, at a code point.
  static std::string cut(const std::string& words, double width) {
    const auto letters = static_cast<size_t>(std::max(width / 7.6, 3.0));
    const std::string clean = to_utf8(words);
    if (display_width(clean) <= letters) return clean;
    size_t bytes = 0;
    for (size_t seen = 0; bytes < clean.size(); ++bytes) {
      if ((static_cast<uint8_t>(clean[bytes]) >> 6) != 2 && ++seen == letters) break;
    }
    return clean.substr(0, bytes) + "\u2026";
  }

  std::string grid() const {
    std::string out;
    for (size_t i = 0; i < y_.ticks.size(); ++i) {
      const double y = py(y_.ticks[i]);
      out += line("grid", left_, y, size_.width - kRight, y);
      out += svg_text("t end", left_ - 7, y + 4, y_.labels[i]);
    }
    for (size_t i = 0; i < x_.ticks.size(); ++i) {
      const double x = px(x_.ticks[i]);
      out += line("axis", x, bottom(), x, bottom() + 4);
      out += svg_text("t mid", x, bottom() + 17, x_.labels[i]);
    }
    out += line("axis", left_, bottom(), size_.width - kRight, bottom());
    return out + svg_text("t dim mid",
                          left_ + width() / 2,
                          bottom() + 32,
                          y_.log ? panel_.x_name + " (logarithmic upwards)" : panel_.x_name);
  }

  /// The numbers of the epochs to mark are multiples of this: 1, 2, 5, 10, … with room for labels.
  int64_t epoch_stride() const {
    if (epochs_.size() < 2) return 1;
    const double first = px(static_cast<double>(epochs_.front().last_step));
    const double last = px(static_cast<double>(epochs_.back().last_step));
    const double epochs = static_cast<double>(epochs_.back().epoch - epochs_.front().epoch);
    const double most = std::max((last - first) / kEpochSpacing, 1.0);
    if (epochs <= most) return 1;
    const std::vector<double> ticks = nice_ticks(0, epochs, static_cast<int>(most) + 1);
    return std::max<int64_t>(1, ticks.size() < 2 ? epochs_.back().epoch : std::llround(ticks[1]));
  }

  /// A dashed line where an epoch ended, with its number above.
  std::string epoch_marks() const {
    const int64_t stride = epoch_stride();
    std::string out;
    double last = left_ - kEpochSpacing / 2;
    for (const EpochMark& mark : epochs_) {
      const double x = px(static_cast<double>(mark.last_step));
      if (mark.epoch % stride != 0 || x - last < kEpochSpacing / 2) continue;
      out += line("epoch", x, kTop, x, bottom()) +
             svg_text("t dim mid", x, kTop - 10, std::to_string(mark.epoch));
      last = x;
    }
    return out.empty() ? out : out + svg_text("t dim end", left_ - 7, kTop - 10, "epoch");
  }

  std::vector<Point> drawn(std::span<const Point> stretch) const {
    return placed(thin(stretch, x_.lo, x_.hi, static_cast<int>(width())));
  }

  std::vector<Point> placed(std::vector<Point> points) const {
    for (Point& point : points) point = {px(point.x), py(point.y)};
    return points;
  }

  std::string curves() const {
    std::string out;
    for (size_t i = 0; i < panel_.series.size(); ++i) out += curve(panel_.series[i], i);
    return out;
  }

  /// A curve of more points than the plot has columns is drawn pale, with its mean over it.
  std::string curve(const Series& series, size_t index) const {
    const bool dense = static_cast<double>(series.points.size()) > 2 * width();
    const bool show_dots = series.points.size() <= kDotsUpTo;
    std::string path;
    std::string mean;
    std::string dots;
    for (const auto& stretch : stretches(series.points)) {
      const std::vector<Point> points = drawn(stretch);
      if (points.size() > 1) path += path_data(points);
      if (dense) mean += path_data(placed(bin_means(stretch, x_.lo, x_.hi, kMeans)));
      if (show_dots || points.size() == 1) add_dots(points, dots);
    }
    const std::string colour = concat(" s", colour_of(series.name, index), "\" d=\"");
    std::string out;
    if (!path.empty())
      out += concat("<path class=\"line", dense ? " pale" : "", colour, path, "\"/>\n");
    if (!mean.empty()) out += concat("<path class=\"line", colour, mean, "\"/>\n");
    if (!dots.empty()) out += concat("<path class=\"dots", colour, dots, "\"/>\n");
    return out + not_finite(series);
  }

  static void add_dots(std::span<const Point> points, std::string& dots) {
    for (const Point& point : points) {
      const std::string dot = concat('M', coordinate(point.x), ' ', coordinate(point.y), "h0");
      if (!dots.ends_with(dot)) dots += dot;
    }
  }

  /// A cross on the axis where a value was NaN or infinite, once per four units.
  std::string not_finite(const Series& series) const {
    std::string crosses;
    double last = -INFINITY;
    for (const Point& point : series.points) {
      const double x = px(point.x);
      if (std::isfinite(point.y) || x - last < 4) continue;
      last = x;
      crosses += concat('M', coordinate(x - 3), ' ', coordinate(bottom() - 7), "l6 6m0 -6l-6 6");
    }
    if (crosses.empty()) return "";
    return concat("<path class=\"bad\" d=\"",
                  crosses,
                  "\"><title>",
                  escape_xml(series.name),
                  ": not a finite number</title></path>\n");
  }

  /// What the page's script needs: the box, and per curve [step, place, text] of its points.
  std::string hover_layer() const {
    Json data = {{"l", left_}, {"r", size_.width - kRight}, {"s", Json::array()}};
    for (const Series& series : panel_.series) {
      Json points = Json::array();
      const int columns = static_cast<int>(width());
      for (const Point& point : thin_with_gaps(series.points, columns)) {
        points.push_back({point.x, std::round(px(point.x) * 10) / 10, readable(point.y)});
      }
      data["s"].push_back(std::move(points));
    }
    return concat("<path class=\"cursor\" d=\"M0 ",
                  coordinate(kTop),
                  'V',
                  coordinate(bottom()),
                  "\"/>\n<text class=\"t at\" x=\"0\" y=\"",
                  coordinate(kTop + 12),
                  "\"></text>\n<g data-curves=\"",
                  escape_xml(data.dump()),
                  "\"></g>\n");
  }

  std::vector<Point> thin_with_gaps(std::span<const Point> points, int columns) const {
    std::vector<Point> out;
    for (const auto& stretch : stretches(points)) {
      const std::vector<Point> some = thin(stretch, x_.lo, x_.hi, columns);
      out.insert(out.end(), some.begin(), some.end());
    }
    return out;
  }

  const Panel& panel_;
  std::span<const EpochMark> epochs_;
  PanelSize size_;
  Axis y_;
  Axis x_;
  double left_ = 0;
};

}  // namespace

std::string_view panel_style() {
  return R"(
text{font:11px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#3c4450}
.head{font-size:16px;font-weight:600;fill:#14181f}.title{font-size:13px;font-weight:600;fill:#14181f}
.dim{fill:#79828f}.end{text-anchor:end}.mid{text-anchor:middle}.k{font-weight:600}.v{font-weight:400}
.page{fill:#fff}.grid{stroke:#e6e9ee}.axis{stroke:#98a1ae}.epoch{stroke:#c3c9d2;stroke-dasharray:2 3}
.line{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}
.pale{opacity:.35;stroke-width:1}.dots{fill:none;stroke-width:5;stroke-linecap:round}
.bad{fill:none;stroke:#c62828;stroke-width:1.5}.cursor{stroke:#79828f;visibility:hidden}
.s0{stroke:#1f6fd1}.s1{stroke:#d3640a}.s2{stroke:#13855a}.s3{stroke:#8049c0}.s4{stroke:#b0207a}
.c0{fill:#1f6fd1}.c1{fill:#d3640a}.c2{fill:#13855a}.c3{fill:#8049c0}.c4{fill:#b0207a}
@media (prefers-color-scheme:dark){
text{fill:#b9c1cc}.head,.title{fill:#eef1f5}.dim{fill:#8a94a2}.page{fill:#14181f}
.grid{stroke:#262d37}.axis{stroke:#657080}.epoch{stroke:#414b59}.bad{stroke:#ff7b72}
.s0{stroke:#6aa8f7}.s1{stroke:#f39a4f}.s2{stroke:#4cc79a}.s3{stroke:#b990ee}.s4{stroke:#ee7dbd}
.c0{fill:#6aa8f7}.c1{fill:#f39a4f}.c2{fill:#4cc79a}.c3{fill:#b990ee}.c4{fill:#ee7dbd}}
)";
}

std::string panel_svg(const Panel& panel,
                      std::span<const EpochMark> epochs,
                      const PanelSize& size,
                      bool hover) {
  return Drawing(panel, epochs, size).svg(hover);
}

}  // namespace muster::track
