#include "muster/pipeline/simulate/timeline.h"

#include <algorithm>
#include <array>
#include <limits>

namespace muster::pipeline {

double Timeline::start_s() const {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& spans : ranks) {
    for (const Span& span : spans) first = std::min(first, span.start_s);
  }
  return first < std::numeric_limits<double>::infinity() ? first : 0;
}

double Timeline::end_s() const {
  double last = -std::numeric_limits<double>::infinity();
  for (const auto& spans : ranks) {
    for (const Span& span : spans) last = std::max(last, span.end_s);
  }
  return last > -std::numeric_limits<double>::infinity() ? last : 0;
}

double Timeline::step_s() const { return end_s() - start_s(); }

double Timeline::busy_s(int64_t rank) const {
  double busy = 0;
  for (const Span& span : ranks.at(static_cast<size_t>(rank))) {
    if (is_compute(span.action.kind)) busy += span.end_s - span.start_s;
  }
  return busy;
}

double Timeline::bubble() const {
  const double all = step_s() * static_cast<double>(ranks.size());
  if (all <= 0) return 0;
  double busy = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) busy += busy_s(static_cast<int64_t>(rank));
  return 1 - busy / all;
}

double Timeline::idle_s() const {
  double most = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) continue;
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const Span& span : ranks[rank]) {
      first = std::min(first, span.start_s);
      last = std::max(last, span.end_s);
    }
    most = std::max(most, last - first - busy_s(static_cast<int64_t>(rank)));
  }
  return most;
}

std::vector<StageTimes> mean_times(const Timeline& timeline, int64_t stages) {
  struct Sum {
    double seconds = 0;
    int64_t count = 0;
    void add(double more) {
      seconds += more;
      ++count;
    }
    double mean() const { return count > 0 ? seconds / static_cast<double>(count) : 0; }
  };
  std::vector<std::array<Sum, kActionKinds>> sums(static_cast<size_t>(stages));
  for (const auto& spans : timeline.ranks)
    for (const Span& span : spans)
      sums.at(static_cast<size_t>(span.action.stage))[static_cast<size_t>(span.action.kind)].add(
          span.end_s - span.start_s);
  std::vector<StageTimes> out;
  for (const auto& of_stage : sums) {
    const auto mean = [&](ActionKind kind) { return of_stage[static_cast<size_t>(kind)].mean(); };
    StageTimes times{.forward_s = mean(ActionKind::kForward),
                     .backward_s = mean(ActionKind::kBackward),
                     .input_s = mean(ActionKind::kBackwardInput),
                     .weight_s = mean(ActionKind::kBackwardWeight),
                     .average_s = mean(ActionKind::kAverageGradients)};
    if (times.backward_s == 0) times.backward_s = times.input_s + times.weight_s;
    out.push_back(times);
  }
  return out;
}

bool has_virtual_stages(const Timeline& timeline) {
  return std::ranges::any_of(timeline.ranks, [](const auto& spans) {
    return std::ranges::any_of(
        spans, [&](const Span& span) { return span.action.stage != spans.front().action.stage; });
  });
}

}  // namespace muster::pipeline
