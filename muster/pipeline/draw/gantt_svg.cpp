#include "muster/pipeline/draw/gantt_svg.h"

#include <algorithm>
#include <array>
#include <set>

#include "muster/base/text.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/track/page/axis.h"
#include "muster/track/page/line.h"
#include "muster/track/page/panel_svg.h"
#include "muster/track/utf8.h"

namespace muster::pipeline {
namespace {

using track::coordinate;
using track::svg_text;

constexpr double kWidth = 960, kLeft = 70, kRight = 16;
constexpr double kTop = 62, kRow = 30, kBar = 24, kBottom = 42;
constexpr double kLetter = 6.8;  // a guess, as nothing here measures letters
constexpr int kTicks = 12;

struct Look {
  std::string_view style, name;
};

/// By kind: the class of its bars, and its name in the legend.
Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {"f", "forward"};
    case ActionKind::kBackward:
      return {"b", "backward"};
    case ActionKind::kBackwardInput:
      return {"b", "backward, input"};
    case ActionKind::kBackwardWeight:
      return {"w", "backward, weights"};
    case ActionKind::kAverageGradients:
      return {"a", "average gradients"};
    default:
      return {"m", "message"};
  }
}

constexpr std::string_view kGanttStyle = R"(
.bar{stroke:#fff;stroke-width:.6}.lane{fill:#f0f2f5}.on{fill:#fff;font-size:10px}
.f{fill:#1f6fd1}.b{fill:#d3640a}.w{fill:#13855a}.a{fill:#8049c0}.m{fill:#79828f}
@media (prefers-color-scheme:dark){.bar{stroke:#14181f}.lane{fill:#1d232c}}
)";

/// Seconds in the unit that suits the axis.
struct Unit {
  std::string name;
  double per_s;
};
Unit unit_of(const std::string& unit, double step) {
  if (unit != "s" || step >= 1 || step <= 0) return {unit, 1};
  return step >= 1e-3 ? Unit{"ms", 1e3} : Unit{"µs", 1e6};
}

class Gantt {
 public:
  Gantt(const Timeline& timeline, const GanttChart& chart)
      : timeline_(timeline),
        chart_(chart),
        start_(timeline.start_s()),
        length_(std::max({timeline.step_s(), chart.until_s, 1e-12})),
        unit_(unit_of(chart.unit, length_)),
        axis_(track::exact_axis(0, length_ * unit_.per_s, kTicks)) {}

  std::string svg() const {
    return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
                  coordinate(kWidth),
                  ' ',
                  coordinate(bottom() + kBottom),
                  "\">\n<title>",
                  track::escape_xml(chart_.title),
                  "</title>\n<style>",
                  track::panel_style(),
                  kGanttStyle,
                  "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
                  svg_text("head", 12, 24, chart_.title),
                  svg_text("dim", 12, 44, summary_text(timeline_, chart_.unit)),
                  legend(),
                  time_axis(),
                  rows(),
                  "</svg>\n");
  }

 private:
  double bottom() const { return kTop + kRow * static_cast<double>(timeline_.ranks.size()); }
  double px(double time_s) const {
    return kLeft + axis_.place((time_s - start_) * unit_.per_s) * (kWidth - kLeft - kRight);
  }

  std::string rect(
      std::string_view style, double x, double y, double width, std::string_view rest) const {
    return concat("<rect class=\"",
                  style,
                  "\" x=\"",
                  coordinate(x),
                  "\" y=\"",
                  coordinate(y),
                  "\" width=\"",
                  coordinate(width),
                  "\" height=\"",
                  coordinate(kBar),
                  "\"",
                  rest);
  }

  /// The kinds that there are, from the right.
  std::string legend() const {
    std::set<ActionKind> kinds;
    for (const auto& spans : timeline_.ranks) {
      for (const Span& span : spans) {
        if (span.end_s > span.start_s) kinds.insert(span.action.kind);
      }
    }
    std::set<std::string_view> seen;
    std::string out;
    double right = kWidth - kRight;
    if (has_virtual_stages(timeline_)) {
      constexpr std::string_view kPaler = "paler: a rank's later stages";
      out += svg_text("t dim end", right, 44, kPaler);
      right -= kLetter * static_cast<double>(kPaler.size());
    }
    for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
      const Look look = look_of(*kind);
      if (!seen.insert(look.name).second) continue;
      out += svg_text("t end", right, 44, look.name);
      right -= kLetter * static_cast<double>(look.name.size()) + 14;
      out += concat("<rect class=\"",
                    look.style,
                    "\" x=\"",
                    coordinate(right),
                    "\" y=\"35\" width=\"10\" height=\"10\"/>\n");
      right -= 14;
    }
    return out;
  }

  std::string time_axis() const {
    std::string out;
    for (size_t i = 0; i < axis_.ticks.size(); ++i) {
      const double x = px(start_ + axis_.ticks[i] / unit_.per_s);
      out += concat("<path class=\"grid\" d=\"M",
                    coordinate(x),
                    ' ',
                    coordinate(kTop - 4),
                    'V',
                    coordinate(bottom() + 4),
                    "\"/>\n");
      out += svg_text("t mid", x, bottom() + 17, axis_.labels[i]);
    }
    const std::string label = unit_.name.empty() ? "time" : concat("time (", unit_.name, ")");
    return out + svg_text("t dim mid", (kLeft + kWidth - kRight) / 2, bottom() + 34, label);
  }

  std::string rows() const {
    std::string out;
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) {
      const double y = kTop + kRow * static_cast<double>(rank) + (kRow - kBar) / 2;
      out += svg_text("t end", kLeft - 10, y + kBar / 2 + 4, concat("rank ", rank));
      out += rect("lane", kLeft, y, kWidth - kLeft - kRight, "/>\n");
      std::set<int64_t> stages;
      for (const Span& span : timeline_.ranks[rank]) stages.insert(span.action.stage);
      for (const Span& span : timeline_.ranks[rank]) {
        const auto chunk = std::distance(stages.begin(), stages.find(span.action.stage));
        out += bar(span, y, static_cast<int>(chunk));
      }
    }
    return out;
  }

  std::string bar(const Span& span, double y, int chunk) const {
    const double x = px(span.start_s), width = px(span.end_s) - x;
    if (span.end_s <= span.start_s) return "";
    const double opacity = std::max(.45, 1 - .28 * chunk);
    std::string out = rect(concat("bar ", look_of(span.action.kind).style),
                           x,
                           y,
                           std::max(width, .4),
                           chunk > 0 ? concat(" fill-opacity=\"", fixed(opacity, 2), "\">") : ">");
    out += concat("<title>",
                  track::escape_xml(describe(span.action)),
                  ": ",
                  track::readable((span.start_s - start_) * unit_.per_s),
                  " to ",
                  track::readable((span.end_s - start_) * unit_.per_s),
                  unit_.name.empty() ? "" : " " + unit_.name,
                  "</title></rect>\n");
    const std::string label = std::to_string(span.action.micro_batch);
    if (is_compute(span.action.kind) && width > kLetter * static_cast<double>(label.size()) + 2)
      out += svg_text("on mid", x + width / 2, y + kBar / 2 + 4, label);
    return out;
  }

  const Timeline& timeline_;
  const GanttChart& chart_;
  double start_, length_;
  Unit unit_;
  track::Axis axis_;
};

}  // namespace

std::string gantt_svg(const Timeline& timeline, const GanttChart& chart) {
  return Gantt(timeline, chart).svg();
}

}  // namespace muster::pipeline
