#include "muster/pipeline/draw/text_drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

constexpr int64_t kMostColumns = 100'000;

/// How actions are named, and how many columns a second has.
struct Scale {
  bool with_stage = false;
  double per_s = 1;
  double start_s = 0;

  std::string name_of(const Action& action) const {
    std::string name(code_of(action.kind));
    name += std::to_string(action.micro_batch);
    return with_stage ? std::to_string(action.stage) + name : name;
  }
  size_t column(double time_s) const {
    return static_cast<size_t>(std::llround((time_s - start_s) * per_s));
  }
};

Scale scale_of(const Timeline& timeline, double columns) {
  Scale scale{.with_stage = has_virtual_stages(timeline), .start_s = timeline.start_s()};
  size_t longest = 0;
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.ranks) {
    for (const Span& span : spans) {
      const double took = span.end_s - span.start_s;
      if (!is_compute(span.action.kind) || took <= 0) continue;
      longest = std::max(longest, scale.name_of(span.action).size() + 1);
      shortest_s = std::min(shortest_s, took);
    }
  }
  if (timeline.step_s() > 0) {
    const double readable = static_cast<double>(longest) / shortest_s;
    scale.per_s = std::min(readable, columns / timeline.step_s());
    // Whole columns for the shortest action: where times are multiples of it, equal ones look so.
    const double whole = std::floor(scale.per_s * shortest_s + 1e-9);
    if (whole >= 1) scale.per_s = whole / shortest_s;
  }
  return scale;
}

/// `width` columns of an action.
std::string bar(const Action& action, size_t width, const Scale& scale) {
  if (is_message(action.kind)) return std::string(width, is_send(action.kind) ? '>' : '<');
  if (action.kind == ActionKind::kAverageGradients) return std::string(width, '=');
  std::string out = scale.name_of(action);
  if (out.size() > width) out = std::string(code_of(action.kind));
  if (out.size() < width) out.append(width - out.size() - 1, '-').append(1, ' ');
  return out.substr(0, width);
}

}  // namespace

std::string draw_text(const Timeline& timeline, const TextDrawing& options) {
  const size_t digits = std::to_string(timeline.ranks.size()).size();
  const size_t margin = 7 + digits;  // "rank 0  "
  const int64_t columns = options.columns > 0 ? options.columns : kMostColumns;
  const int64_t room = std::max<int64_t>(columns - static_cast<int64_t>(margin), 10);
  const Scale scale = scale_of(timeline, static_cast<double>(std::min(room, kMostColumns)));
  const size_t width = scale.column(timeline.end_s());
  std::string out;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    std::string line(width, '.');
    for (const Span& span : timeline.ranks[rank]) {
      const size_t from = scale.column(span.start_s), to = scale.column(span.end_s);
      if (to > from) line.replace(from, to - from, bar(span.action, to - from, scale));
    }
    std::string name = concat("rank ", rank);
    name.resize(margin, ' ');
    line = name + line;
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string summary_text(const Timeline& timeline, const std::string& unit) {
  const auto number = [](double value) {
    const std::string text = fixed(value, 3);
    const size_t last = text.find_last_not_of('0');
    return text.substr(0, text[last] == '.' ? last : last + 1);
  };
  const auto time = [&](double value) {
    constexpr double kWhole = 0.01;  // from here on whole milliseconds tell enough
    if (unit == "s" && value < kWhole) return number(1e3 * value) + "ms";
    if (unit == "s") return human_duration(value);
    return number(value) + (unit.empty() ? "" : " " + unit);
  };
  return concat("step ",
                time(timeline.step_s()),
                ", bubble ",
                fixed(100 * timeline.bubble(), 1),
                " %, idle ",
                time(timeline.idle_s()));
}

}  // namespace muster::pipeline
