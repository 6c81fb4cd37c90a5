#include "muster/diagnose/trace/timeline.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/trace/interval_set.h"

namespace muster::diagnose {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string percent(double part, double whole) {
  return fixed(whole > 0 ? 100 * part / whole : 0, 0) + " %";
}

/// The ends of operations; one that is still under way ends with the step.
int64_t end_of(const OpRecord& operation, int64_t step_end) {
  return operation.completed_ns == 0 ? step_end : std::min(operation.completed_ns, step_end);
}

}  // namespace

std::string_view TimelineSummary::bound() const {
  if (data_s > compute_s && data_s > exposed_s) return "loader";
  return exposed_s > compute_s ? "comm" : "compute";
}

std::string TimelineSummary::to_text() const {
  const double per_step = static_cast<double>(std::max<int64_t>(steps, 1));
  const std::string each_step = concat(" of ", fixed(1e3 * total_s / per_step, 2), " ms a step; ");
  const std::string moved =
      human_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / per_step));
  std::string text = concat(bound(), "-bound, ");
  text +=
      knows_communication ? percent(overlap_s, communication_s) + " overlap" : "overlap unknown";
  text += concat(": data ", percent(data_s, total_s), ", compute ", percent(compute_s, total_s));
  if (knows_communication) {
    text += concat(", exposed communication ", percent(exposed_s, total_s), each_step);
    text += concat(moved, " in ", fixed(1e3 * communication_s / per_step, 2));
    text += " ms of communication a step; ";
  } else {
    text += concat(each_step, moved, " a step, in a time that only the device knows; ");
  }
  text += concat(steps / std::max<int64_t>(ranks, 1), " steps, ", ranks);
  text += ranks == 1 ? " rank" : " ranks";
  if (lost_records > 0) text += concat("; ", lost_records, " operations were not recorded");
  return text;
}

Timeline::Timeline(TimelineOptions options)
    : options_(std::move(options)), wall_offset_ns_(wall_ns() - options_.clock()) {
  summary_.knows_communication = options_.knows_ends;
}

bool Timeline::keeps_next_step() const {
  const bool is_full = spans_.size() + operations_.size() >= kMaxRecords;
  return !is_full && (options_.steps == 0 || static_cast<int64_t>(steps_.size()) < options_.steps);
}

/// The steps of the warm-up.
void Timeline::forget() {
  steps_.clear();
  spans_.clear();
  operations_.clear();
  summary_ = {.knows_communication = options_.knows_ends};
}

void Timeline::begin_step(int64_t number) {
  if (!is_recording() || in_step_) return;
  if (begun_ == options_.warm_up) forget();
  ++begun_;
  in_step_ = true;
  keeps_ = keeps_next_step();
  if (!keeps_) return;
  first_span_ = spans_.size();
  if (options_.recorder) {
    const auto known = options_.recorder->since(next_id_);
    if (!known.empty()) next_id_ = known.back().id + 1;
  }
  const int64_t now = options_.clock();
  steps_.push_back({number, now, now});
}

void Timeline::end_step() {
  end();
  in_step_ = false;
  if (!std::exchange(keeps_, false)) return;
  Step& step = steps_.back();
  step.end_ns = options_.clock();
  std::vector<OpRecord> operations;
  if (options_.recorder) operations = options_.recorder->since(next_id_);
  if (!operations.empty()) {
    summary_.lost_records += static_cast<int64_t>(operations.front().id - next_id_);
    next_id_ = operations.back().id + 1;
  }
  add_step_to_summary(step, operations);
  for (const OpRecord& operation : operations) add_operation(operation);
}

void Timeline::begin(Phase phase) {
  if (!keeps_) return;
  end();
  in_phase_ = true;
  const int64_t now = options_.clock();
  spans_.push_back({phase, now, now});
}

void Timeline::end() {
  if (!in_phase_) return;
  in_phase_ = false;
  spans_.back().end_ns = options_.clock();
}

void Timeline::add(Phase phase, int64_t begin_ns, int64_t end_ns) {
  if (keeps_ && end_ns > begin_ns) spans_.push_back({phase, begin_ns, end_ns});
}

void Timeline::add_operation(const OpRecord& record) {
  std::string call = describe(record);
  const auto [known, is_new] =
      call_numbers_.try_emplace(call, static_cast<uint32_t>(calls_.size()));
  if (is_new) calls_.push_back(std::move(call));
  operations_.push_back({.kind = record.kind,
                         .call = known->second,
                         .sequence = record.sequence,
                         .bytes = record.bytes,
                         .posted_ns = record.posted_ns,
                         .completed_ns = options_.knows_ends ? record.completed_ns : 0});
}

// See Note [What the time of a step is].
void Timeline::add_step_to_summary(const Step& step, std::span<const OpRecord> operations) {
  std::vector<Interval> phases[5], under_way, stands_still;
  for (size_t i = first_span_; i < spans_.size(); ++i)
    phases[static_cast<size_t>(spans_[i].phase)].push_back({spans_[i].begin_ns, spans_[i].end_ns});
  for (const OpRecord& operation : operations) summary_.bytes += operation.bytes;
  if (!options_.knows_ends) operations = {};
  for (const OpRecord& operation : operations) {
    const int64_t done = end_of(operation, step.end_ns);
    under_way.push_back({operation.posted_ns, done});
    if (operation.waited_ns != 0) stands_still.push_back({operation.waited_ns, done});
  }
  for (const Interval& backward : phases[static_cast<size_t>(Phase::kBackward)]) {
    int64_t last_call = 0, all_done = 0;
    for (const OpRecord& operation : operations) {
      if (operation.posted_ns < backward.begin || operation.posted_ns >= backward.end) continue;
      last_call = std::max(last_call, operation.posted_ns);
      all_done = std::max(all_done, end_of(operation, step.end_ns));
    }
    if (last_call != 0) stands_still.push_back({last_call, std::min(all_done, backward.end)});
  }
  const IntervalSet waits(phases[4]);
  const IntervalSet communication = IntervalSet(under_way) | waits;
  const IntervalSet data(phases[0]), backward(phases[2]);
  const IntervalSet working = IntervalSet(phases[1]) | backward | IntervalSet(phases[3]);
  const IntervalSet exposed = (IntervalSet(stands_still) & communication) | waits;
  ++summary_.steps;
  summary_.total_s += seconds(step.end_ns - step.begin_ns);
  summary_.data_s += seconds((data - exposed).length());
  summary_.compute_s += seconds((working - exposed).length());
  summary_.exposed_s += seconds(exposed.length());
  summary_.communication_s += seconds(communication.length());
  summary_.overlap_s += seconds((communication & (backward - exposed)).length());
}

void Timeline::add_device_spans(std::vector<DeviceSpan> spans) {
  if (steps_.empty()) return;
  const int64_t start = steps_.front().begin_ns;
  for (DeviceSpan& span : spans)
    if (span.begin_ns >= start) device_spans_.push_back(std::move(span));
}

TimelineSummary sum_of(std::span<const TimelineSummary> summaries) {
  TimelineSummary sum{.ranks = 0};
  for (const TimelineSummary& one : summaries) {
    sum.ranks += one.ranks;
    sum.steps += one.steps;
    sum.total_s += one.total_s;
    sum.data_s += one.data_s;
    sum.compute_s += one.compute_s;
    sum.exposed_s += one.exposed_s;
    sum.communication_s += one.communication_s;
    sum.overlap_s += one.overlap_s;
    sum.bytes += one.bytes;
    sum.lost_records += one.lost_records;
    sum.knows_communication = sum.knows_communication && one.knows_communication;
  }
  return sum;
}

std::string Timeline::head() const {
  Json json;
  json["format"] = "muster-timeline/1";
  json["rank"] = options_.rank;
  json["start_ns"] = steps_.empty() ? std::numeric_limits<int64_t>::max()
                                    : steps_.front().begin_ns + wall_offset_ns_;
  json["wall_offset_ns"] = wall_offset_ns_;
  json["summary"] = {summary_.steps,
                     summary_.total_s,
                     summary_.data_s,
                     summary_.compute_s,
                     summary_.exposed_s,
                     summary_.communication_s,
                     summary_.overlap_s,
                     summary_.bytes,
                     summary_.lost_records,
                     summary_.knows_communication ? 1 : 0};
  return json_text(json);
}

std::string Timeline::part() const {
  std::string text = head();
  text.pop_back();  // the brace
  const auto list = [&text](const char* key, const auto& things, const auto& row) {
    text += concat(",\"", key, "\":[");
    for (size_t i = 0; i < things.size(); ++i) {
      if (i > 0) text += ',';
      text += json_text(row(things[i]));
    }
    text += ']';
  };
  list("steps", steps_, [](const Step& step) {
    return Json{step.number, step.begin_ns, step.end_ns};
  });
  list("phases", spans_, [](const Span& span) {
    return Json{static_cast<int>(span.phase), span.begin_ns, span.end_ns};
  });
  list("operations", operations_, [this](const Operation& operation) {
    return Json{std::string(op_name(operation.kind)),
                calls_[operation.call],
                operation.sequence,
                operation.bytes,
                operation.posted_ns,
                operation.completed_ns};
  });
  list("device", device_spans_, [](const DeviceSpan& span) {
    return Json{span.row, span.name, span.begin_ns, span.end_ns};
  });
  return text + '}';
}

}  // namespace muster::diagnose
