#include "muster/diagnose/record/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "muster/base/json.h"

namespace muster::diagnose {
namespace {

/// Ends on no rank before every rank has called it.
bool needs_all(OpKind kind) {
  return !is_point_to_point(kind) && kind != OpKind::kBroadcast && kind != OpKind::kReduce &&
         kind != OpKind::kGather && kind != OpKind::kScatter;
}

}  // namespace

FlightRecorder::FlightRecorder(size_t capacity, std::function<int64_t()> clock)
    : clock_(std::move(clock)), ring_(std::max<size_t>(capacity, 16)) {
  marks_.reserve(64);
}

int64_t FlightRecorder::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void FlightRecorder::set_activity(std::function<std::string()> activity) {
  const std::lock_guard lock(activity_mutex_);
  activity_.swap(activity);
}

std::string FlightRecorder::activity() const {
  const std::lock_guard lock(activity_mutex_);
  return activity_ ? activity_() : "";
}

OpRecord* FlightRecorder::find(uint64_t id) {
  OpRecord& slot = ring_[id % ring_.size()];
  return slot.id == id && id < next_id_ ? &slot : nullptr;
}

OpRecord FlightRecorder::post(OpRecord record) {
  record.step = step();
  record.posted_ns = clock_();
  const std::lock_guard lock(mutex_);
  record.id = next_id_++;
  last_ns_ = record.posted_ns;
  if (!is_point_to_point(record.kind)) {
    record.sequence = posted_++;
    chain_before_ = chain_;
    chain_ = mix64(chain_ ^ fingerprint(record));
    const auto powers = static_cast<size_t>(std::countr_zero(posted_));
    if (marks_.size() <= powers) marks_.resize(powers + 1);
    marks_before_.assign(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(powers) + 1);
    for (size_t j = 0; j <= powers; ++j) marks_[j] = {posted_, chain_};
  }
  ring_[record.id % ring_.size()] = record;
  return record;
}

void FlightRecorder::let_stand(uint64_t id, bool stands) {
  const std::lock_guard lock(mutex_);
  if (OpRecord* record = find(id)) record->stands = stands;
}

void FlightRecorder::take_back(uint64_t id) {
  const std::lock_guard lock(mutex_);
  OpRecord* record = find(id);
  if (record == nullptr) return;
  record->state = OpState::kFailed;
  record->completed_ns = clock_();
  const bool is_last = id + 1 == next_id_;
  if (!is_last || is_point_to_point(record->kind)) return;
  --next_id_;  // its places are taken by the next one
  --posted_;
  chain_ = chain_before_;
  std::copy(marks_before_.begin(), marks_before_.end(), marks_.begin());
}

void FlightRecorder::begin_wait(uint64_t id) {
  const int64_t now = clock_();
  const std::lock_guard lock(mutex_);
  OpRecord* record = find(id);
  if (record != nullptr && record->waited_ns == 0) record->waited_ns = now;
  waits_.push_back(id);
  last_ns_ = now;
}

void FlightRecorder::end_wait(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto wait = std::find(waits_.begin(), waits_.end(), id);
  if (wait != waits_.end()) waits_.erase(wait);
  last_ns_ = clock_();
}

void FlightRecorder::complete(uint64_t id, bool failed) {
  const int64_t now = clock_();
  const std::lock_guard lock(mutex_);
  OpRecord* record = find(id);
  if (record == nullptr || record->state != OpState::kPosted) return;
  record->state = failed ? OpState::kFailed : OpState::kCompleted;
  record->stands = true;
  record->completed_ns = now;
  last_ns_ = now;
  if (failed && !is_point_to_point(record->kind))
    first_failed_ = std::min(first_failed_.value_or(record->sequence), record->sequence);
}

Standing FlightRecorder::standing() const {
  const std::lock_guard lock(mutex_);
  Standing result{.posted = posted_, .completed = posted_, .last_ns = last_ns_, .step = step()};
  const uint64_t first = next_id_ - std::min<uint64_t>(next_id_, ring_.size());
  for (uint64_t id = first; id < next_id_; ++id) {
    const OpRecord& record = ring_[id % ring_.size()];
    if (is_point_to_point(record.kind)) continue;
    if (record.state == OpState::kPosted)
      result.completed = std::min(result.completed, record.sequence);
    if (record.state == OpState::kCompleted && needs_all(record.kind))
      result.proven = record.sequence + 1;
    result.last = record;
  }
  for (const uint64_t id : waits_) {
    const OpRecord& record = ring_[id % ring_.size()];
    if (record.id != id || (result.waiting && record.id > result.waits_for.id)) continue;
    result.waiting = true;
    result.waits_for = record;
  }
  if (first_failed_ && *first_failed_ + 1 < result.proven) result.survived = result.proven;
  return result;
}

std::vector<ChainMark> FlightRecorder::marks() const {
  const std::lock_guard lock(mutex_);
  std::vector<ChainMark> result(marks_.rbegin(), marks_.rend());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  std::erase_if(result, [](const ChainMark& mark) { return mark.count == 0; });
  return result;
}

std::vector<OpRecord> FlightRecorder::since(uint64_t from) const {
  const std::lock_guard lock(mutex_);
  const uint64_t first = next_id_ - std::min<uint64_t>(next_id_, ring_.size());
  std::vector<OpRecord> result;
  for (uint64_t id = std::max(first, from); id < next_id_; ++id)
    result.push_back(ring_[id % ring_.size()]);
  return result;
}

std::vector<OpRecord> FlightRecorder::last_collectives(size_t limit) const {
  const std::lock_guard lock(mutex_);
  const uint64_t first = next_id_ - std::min<uint64_t>(next_id_, ring_.size());
  std::vector<OpRecord> result;
  for (uint64_t id = next_id_; id > first && result.size() < limit; --id) {
    const OpRecord& record = ring_[(id - 1) % ring_.size()];
    if (!is_point_to_point(record.kind)) result.push_back(record);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

int64_t FlightRecorder::usual_ns() const {
  std::vector<int64_t> took;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t first = next_id_ - std::min<uint64_t>(next_id_, 256);
    for (uint64_t id = first; id < next_id_; ++id) {
      const OpRecord& record = ring_[id % ring_.size()];
      if (record.id == id && record.state == OpState::kCompleted)
        took.push_back(record.completed_ns - record.posted_ns);
    }
  }
  if (took.empty()) return 0;
  const auto rank = took.begin() + static_cast<std::ptrdiff_t>((took.size() - 1) * 99 / 100);
  std::nth_element(took.begin(), rank, took.end());
  return *rank;
}

Json to_json(const OpRecord& record) {
  const auto text = [](OpState state) {
    return state == OpState::kPosted      ? "posted"
           : state == OpState::kCompleted ? "completed"
                                          : "failed";
  };
  Json json;
  json["id"] = record.id;
  if (!is_point_to_point(record.kind)) json["sequence"] = record.sequence;
  json["op"] = op_name(record.kind);
  json["text"] = describe(record);
  json["state"] = text(record.state);
  if (record.step >= 0) json["step"] = record.step;
  json["bytes"] = record.bytes;
  json["posted_ns"] = record.posted_ns;
  if (record.waited_ns != 0) json["waited_ns"] = record.waited_ns;
  if (record.completed_ns != 0) json["completed_ns"] = record.completed_ns;
  return json;
}

}  // namespace muster::diagnose
