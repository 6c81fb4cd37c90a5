#include "muster/distributed/shm/shm_steps.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "muster/base/text.h"
#include "muster/distributed/call/names.h"
#include "muster/distributed/meet/waited_time.h"
#include "muster/distributed/shm/futex.h"

namespace muster::distributed {
namespace {

/// How long a sleeping rank leaves dead peers unnoticed.
constexpr auto kStepSlice = std::chrono::milliseconds(10);
constexpr auto kSpin = std::chrono::nanoseconds(60'000);
constexpr uint32_t kSpinInFullEvery = 16;

}  // namespace

ShmSteps::ShmSteps(std::shared_ptr<ShmSegment> segment, int rank, std::vector<int> names)
    : segment_(std::move(segment)),
      rank_(rank),
      names_(std::move(names)),
      spin_(segment_->world_size() <= usable_cores() ? kSpin : std::chrono::nanoseconds(0)),
      spin_now_(spin_) {
  for (int other = 0; other < segment_->world_size(); ++other) {
    const pid_t pid = segment_->rank(other).pid.load();
    peers_.push_back(pid == 0 || pid == ::getpid() ? PeerProcess() : PeerProcess(pid));
  }
  segment_->set_state(rank_, RankState::kIn);
}

void ShmSteps::begin(const OpSignature& signature, std::chrono::milliseconds timeout) {
  signature_ = signature;
  timeout_ = timeout;
  first_turn_ = true;
  if (ended_.load(std::memory_order_acquire)) {
    // Others may still read what this rank wrote for the step that it gave up.
    const std::lock_guard lock(end_mutex_);
    throw environment_error({.refused = signature.describe() + " on a group that has failed",
                             .rule = failure_.empty() ? "the group was destroyed" : failure_});
  }
  RankBlock& mine = segment_->rank(rank_);
  mine.last_op.store(signature.sequence << 8 | signature.op, std::memory_order_relaxed);
  mine.signatures[(step_ + 1) & 1] = signature;
}

void ShmSteps::turn() {
  const uint32_t step = step_ + 1;
  const auto world = static_cast<uint64_t>(world_size());
  SegmentHead& head = segment_->head();
  segment_->rank(rank_).posted.store(step, std::memory_order_release);
  // `arrived` counts from 0 and never wraps; the epoch does, and is compared for equality only.
  const uint64_t arrived = head.arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived % world == 0) {
    head.epoch.store(step);
    if (head.sleepers.load() > 0) futex_wake_all(head.epoch);
  } else {
    wait_for_all(step);
  }
  // Whoever comes last, and late, finds that the others have given up.
  if (head.failures.load() > 0)
    if (const std::vector<int> gone = culprits(step); !gone.empty()) give_up(step, gone);
  step_ = step;
  if (!std::exchange(first_turn_, false)) return;
  compare_signatures();
}

void ShmSteps::wait_for_all(uint32_t step) {
  SegmentHead& head = segment_->head();
  const auto came = [&] { return head.epoch.load(std::memory_order_acquire) == step; };
  // Where nobody comes within the spin (a busy machine, a slow rank), spin less the next time. Now
  // and then spin in full all the same: ranks that sleep late would wake each other late for ever.
  const bool in_full = step % kSpinInFullEvery == 0;
  const bool soon = spin_until(came, in_full ? spin_ : spin_now_);
  spin_now_ = !soon ? spin_now_ / 2 : in_full ? spin_ : std::min(spin_, 2 * spin_now_ + kSpin / 32);
  if (soon) return;
  WaitedTime waited(5 * kStepSlice);
  while (!came()) {
    if (ended_.load(std::memory_order_acquire)) give_up(step, "the group was destroyed");
    if (const std::vector<int> gone = culprits(step); !gone.empty()) {
      if (came()) return;  // it came, and left afterwards
      give_up(step, gone);
    }
    const std::chrono::nanoseconds left = timeout_ - waited.look();
    if (left.count() <= 0) give_up(step, concat("timed out after ", timeout_.count(), " ms"));
    head.sleepers.fetch_add(1);
    if (!came())
      futex_wait(head.epoch, step - 1, std::min<std::chrono::nanoseconds>(left, kStepSlice));
    head.sleepers.fetch_sub(1);
  }
}

void ShmSteps::compare_signatures() const {
  const unsigned parity = step_ & 1;
  const OpSignature& first = segment_->rank(0).signatures[parity];
  for (int other = 1; other < world_size(); ++other) {
    const OpSignature& theirs = segment_->rank(other).signatures[parity];
    if (theirs.fits(first)) continue;
    const auto say = [&](int rank, const OpSignature& sign) {
      return concat("rank ", name(rank), ": ", sign.describe());
    };
    throw usage_error(
        {.refused = "ranks disagree on a collective",
         .rule = "all ranks call the same operations in the same order with the same shapes",
         .value = say(0, first) + "; " + say(other, theirs)});
  }
}

std::string ShmSteps::departure(int other) const {
  const RankBlock& block = segment_->rank(other);
  const auto name = concat("rank ", names_[static_cast<size_t>(other)]);
  switch (static_cast<RankState>(block.state.load(std::memory_order_acquire))) {
    case RankState::kEnded:
      return name + " has ended";
    case RankState::kFailed:
      return concat(name, " failed: ", block.reason);
    default:
      break;
  }
  const PeerProcess& process = peers_[static_cast<size_t>(other)];
  if (process.alive()) return "";
  return concat(name, " is dead: its process ", process.pid(), " was killed or crashed");
}

std::string ShmSteps::sender_departure(int other) const {
  const bool gives = segment_->rank(other).gives.load(std::memory_order_acquire) != 0;
  return gives && peers_[static_cast<size_t>(other)].alive() ? "" : departure(other);
}

/// Who makes it hopeless to wait for `step`. Of ranks that failed nobody is named beside one that
/// died or left: they may have failed because of it.
std::vector<int> ShmSteps::culprits(uint32_t step) const {
  std::vector<int> left, failed;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_) continue;
    const RankBlock& block = segment_->rank(other);
    const bool has_failed =
        block.state.load(std::memory_order_acquire) == static_cast<uint32_t>(RankState::kFailed);
    const bool is_gone = !departure(other).empty();
    const uint32_t posted = block.posted.load(std::memory_order_acquire);
    // A rank may end as soon as its own part is done. One that failed at the next step has done its
    // part of this one; what it wrote for it is still there.
    const bool is_past = posted == step + 1;
    if (is_gone && !is_past && (has_failed || posted != step))
      (has_failed ? failed : left).push_back(other);
  }
  return left.empty() ? failed : left;
}

bool ShmSteps::has_come(int other, uint32_t step) const {
  const uint32_t posted = segment_->rank(other).posted.load(std::memory_order_acquire);
  return posted == step || posted == step + 1;
}

std::string ShmSteps::missing_at(uint32_t step, const std::vector<int>& gone) const {
  std::vector<std::string> here, missing;
  std::string last;
  // Beside one that will not come who is late is not to blame.
  const bool names_gone =
      std::any_of(gone.begin(), gone.end(), [&](int other) { return !has_come(other, step); });
  for (int other = 0; other < world_size(); ++other) {
    const RankBlock& block = segment_->rank(other);
    const bool came = has_come(other, step);
    if (!came && names_gone && std::find(gone.begin(), gone.end(), other) == gone.end()) continue;
    const std::string name = std::to_string(names_[static_cast<size_t>(other)]);
    (came ? here : missing).push_back(name);
    const uint64_t op = block.last_op.load(std::memory_order_relaxed);
    if (!came && block.posted.load() > 0)
      last += concat("; rank ",
                     name,
                     " was last in ",
                     operation_name(static_cast<c10d::OpType>(op & 0xff)),
                     " #",
                     op >> 8);
  }
  if (missing.empty()) return "";
  return concat(
      "rank ", join(missing, ", "), " did not come, rank ", join(here, ", "), " waited", last);
}

std::string ShmSteps::missing() const {
  return missing_at(segment_->rank(rank_).posted.load(std::memory_order_acquire), {});
}

void ShmSteps::give_up(uint32_t step, const std::vector<int>& gone) {
  give_up(step, departure(gone.at(0)), gone);
}

void ShmSteps::give_up(uint32_t step, const std::string& reason, const std::vector<int>& gone) {
  const std::string who = missing_at(step, gone);
  const std::string text = concat(signature_.describe(),
                                  " #",
                                  signature_.sequence,
                                  " of shm ranks: ",
                                  who.empty() ? reason : concat(who, " (", reason, ")"));
  end(text);
  throw environment_error({.refused = text});
}

void ShmSteps::end(const std::string& failure) {
  const std::lock_guard lock(end_mutex_);
  if (ended_.load()) return;
  failure_ = failure;
  ended_.store(true, std::memory_order_release);
  if (failure.empty())
    segment_->set_state(
        rank_, RankState::kEnded, last_word_.value_or(""), /*threw=*/last_word_.has_value());
  else
    segment_->set_state(rank_, RankState::kFailed, failure);
}

void ShmSteps::will_end_with(const std::string& why) {
  const std::lock_guard lock(end_mutex_);
  last_word_ = why;
}

std::optional<std::string> ShmSteps::last_word(int other) const {
  const RankBlock& block = segment_->rank(other);
  const auto ended = static_cast<uint32_t>(RankState::kEnded);
  if (block.state.load(std::memory_order_acquire) != ended || !block.threw) return std::nullopt;
  return block.reason;
}

}  // namespace muster::distributed
