#include "muster/pipeline/draw/gantt.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/track/page/axis.h"
#include "muster/track/page/line.h"
#include "muster/track/picture/picture_png.h"
#include "muster/track/picture/picture_svg.h"

namespace muster::pipeline {
namespace {

using track::Anchor;
using track::Ink;

constexpr double kWidth = 960, kLeft = 70, kRight = 16;
constexpr double kTop = 62, kRow = 30, kBar = 24, kBottom = 42;
constexpr double kSeam = .6;  // between bars
constexpr double kLetters = 10;
constexpr int kTicks = 12;

struct Look {
  Ink ink;
  std::string_view name;
};

/// By kind: the colour of its bars, and its name in the legend.
Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {track::series_ink(0), "forward"};
    case ActionKind::kBackward:
      return {track::series_ink(1), "backward"};
    case ActionKind::kBackwardInput:
      return {track::series_ink(1), "backward, input"};
    case ActionKind::kBackwardWeight:
      return {track::series_ink(2), "backward, weights"};
    case ActionKind::kAverageGradients:
      return {track::series_ink(3), "average gradients"};
    default:
      return {Ink::kDim, "message"};
  }
}

/// Seconds in the unit that suits the axis.
struct Unit {
  std::string name;
  double per_s;
};
Unit unit_of(const std::string& unit, double step) {
  if (unit != "s" || step >= 1 || step <= 0) return {unit, 1};
  return step >= 1e-3 ? Unit{"ms", 1e3} : Unit{"µs", 1e6};
}

bool has_bar(const Span& span) { return span.end_s > span.start_s; }

class Gantt {
 public:
  Gantt(const Timeline& timeline, const GanttChart& chart)
      : timeline_(timeline),
        chart_(chart),
        start_(timeline.start_s()),
        length_(std::max({timeline.step_s(), chart.until_s, 1e-12})),
        unit_(unit_of(chart.unit, length_)),
        axis_(track::exact_axis(0, length_ * unit_.per_s, kTicks)),
        picture_(kWidth, bottom() + kBottom, chart.title) {
    add_text(12, 24, chart_.title, {.ink = Ink::kStrong, .size = 13, .bold = true});
    add_text(12, 44, summary_text(timeline_, chart_.unit), {.ink = Ink::kDim});
    add_legend();
    add_time_axis();
    add_rows();
  }

  const track::Picture& picture() const { return picture_; }

  /// "forward of stage 3, micro-batch 0 (3F0): 3 to 4 F". Items are numbered as add_rows() has them.
  std::string words(int64_t item) const {
    const Span& span = *bars_.at(static_cast<size_t>(item));
    return concat(describe(span.action),
                  ": ",
                  track::readable((span.start_s - start_) * unit_.per_s),
                  " to ",
                  track::readable((span.end_s - start_) * unit_.per_s),
                  unit_.name.empty() ? "" : " " + unit_.name);
  }

 private:
  double bottom() const { return kTop + kRow * static_cast<double>(timeline_.ranks.size()); }
  double px(double time_s) const {
    return kLeft + axis_.place((time_s - start_) * unit_.per_s) * (kWidth - kLeft - kRight);
  }

  void add_text(double x, double y, std::string_view text, track::TextCommand look) {
    look.x = x;
    look.y = y;
    look.text = text;
    picture_.add(std::move(look));
  }

  /// The kinds that there are, from the right.
  void add_legend() {
    std::set<ActionKind> kinds;
    for (const auto& spans : timeline_.ranks) {
      for (const Span& span : spans)
        if (has_bar(span)) kinds.insert(span.action.kind);
    }
    double right = kWidth - kRight;
    if (has_virtual_stages(timeline_)) {
      constexpr std::string_view kPaler = "paler: a rank's later stages";
      add_text(right, 44, kPaler, {.ink = Ink::kDim, .anchor = Anchor::kEnd});
      right -= track::text_width(kPaler) + 14;
    }
    std::set<std::string_view> seen;
    for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
      const Look look = look_of(*kind);
      if (!seen.insert(look.name).second) continue;
      add_text(right, 44, look.name, {.anchor = Anchor::kEnd});
      right -= track::text_width(look.name) + 18;  // the box, and a gap to it
      picture_.add(
          track::BoxCommand{.x = right, .y = 35, .width = 10, .height = 10, .fill = look.ink});
      right -= 14;
    }
  }

  void add_time_axis() {
    for (size_t i = 0; i < axis_.ticks.size(); ++i) {
      const double x = px(start_ + axis_.ticks[i] / unit_.per_s);
      picture_.add(track::LineCommand{
          .points = {{x, kTop - 4}, {x, bottom() + 4}}, .ink = Ink::kGrid, .width = 1});
      add_text(x, bottom() + 17, axis_.labels[i], {.anchor = Anchor::kMiddle});
    }
    const std::string label = unit_.name.empty() ? "time" : concat("time (", unit_.name, ")");
    add_text((kLeft + kWidth - kRight) / 2,
             bottom() + 34,
             label,
             {.ink = Ink::kDim, .anchor = Anchor::kMiddle});
  }

  void add_rows() {
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) {
      const double y = kTop + kRow * static_cast<double>(rank) + (kRow - kBar) / 2;
      add_text(kLeft - 10, y + kBar / 2 + 4, concat("rank ", rank), {.anchor = Anchor::kEnd});
      picture_.add(track::BoxCommand{.x = kLeft,
                                     .y = y,
                                     .width = kWidth - kLeft - kRight,
                                     .height = kBar,
                                     .fill = Ink::kGrid,
                                     .opacity = .5});
      std::set<int64_t> stages;
      for (const Span& span : timeline_.ranks[rank]) stages.insert(span.action.stage);
      for (const Span& span : timeline_.ranks[rank]) {
        const auto chunk = std::distance(stages.begin(), stages.find(span.action.stage));
        if (has_bar(span)) add_bar(span, y, static_cast<double>(chunk));
      }
    }
  }

  void add_bar(const Span& span, double y, double chunk) {
    const double x = px(span.start_s), width = px(span.end_s) - x;
    const double seam = width > 4 * kSeam ? kSeam : 0;
    picture_.add(track::BoxCommand{.x = x,
                                   .y = y,
                                   .width = std::max(width - seam, .4),
                                   .height = kBar,
                                   .fill = look_of(span.action.kind).ink,
                                   .opacity = std::max(.45, 1 - .28 * chunk),
                                   .item = static_cast<int64_t>(bars_.size())});
    bars_.push_back(&span);
    const std::string label = std::to_string(span.action.micro_batch);
    if (!is_compute(span.action.kind) || width <= track::text_width(label, kLetters) + 2) return;
    add_text(x + width / 2,
             y + kBar / 2 + 4,
             label,
             {.ink = Ink::kPage, .size = kLetters, .anchor = Anchor::kMiddle});
  }

  const Timeline& timeline_;
  const GanttChart& chart_;
  double start_, length_;
  Unit unit_;
  track::Axis axis_;
  track::Picture picture_;
  std::vector<const Span*> bars_;  // by item
};

}  // namespace

track::Picture gantt_picture(const Timeline& timeline, const GanttChart& chart) {
  return Gantt(timeline, chart).picture();
}

std::string gantt_svg(const Timeline& timeline, const GanttChart& chart) {
  const Gantt drawn(timeline, chart);
  return track::picture_svg_document(drawn.picture(),
                                     [&](int64_t item) { return drawn.words(item); });
}

std::string gantt_file(const Timeline& timeline,
                       const GanttChart& chart,
                       const std::filesystem::path& file) {
  return file.extension() == ".png" ? track::picture_png(gantt_picture(timeline, chart))
                                    : gantt_svg(timeline, chart);
}

void check_gantt_file(std::string_view what, const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) {
    throw usage_error({.refused = std::string(what),
                       .rule = "the drawing is a file, and this is a folder",
                       .value = file.string()});
  }
  if (file.extension() == ".svg" || file.extension() == ".png") return;
  throw usage_error({.refused = std::string(what),
                     .rule = "the drawing is a file that ends in .svg or .png",
                     .value = file.string()});
}

}  // namespace muster::pipeline
