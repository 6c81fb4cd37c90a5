#include "muster/distributed/thread/thread_exchange.h"

#include <algorithm>
#include <utility>

#include "muster/base/text.h"

namespace muster::distributed {
namespace {

/// Those of what is read and of what is written.
std::vector<c10::Device> devices_of(const Contribution& part) {
  std::vector<at::Tensor> tensors = part.inputs;
  tensors.insert(tensors.end(), part.outputs.begin(), part.outputs.end());
  return tensor::stream_devices(tensors);
}

}  // namespace

ThreadExchange::ThreadExchange(int world_size)
    : world_size_(world_size), watchdog_([this] { run_watchdog(); }) {}

ThreadExchange::ThreadExchange(int world_size, std::shared_ptr<ThreadExchange> first)
    : world_size_(world_size), first_(std::move(first)) {}

ThreadExchange::~ThreadExchange() {
  if (first_) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (watchdog_.get_id() == std::this_thread::get_id()) {
    *gone_ = true;
    watchdog_.detach();
  } else {
    watchdog_.join();
  }
}

std::string ThreadExchange::departure(int rank) const {
  const auto found = left_.find(rank);
  if (found == left_.end()) return "";
  return found->second.empty() ? concat("rank ", rank, " has ended")
                               : concat("rank ", rank, " failed: ", found->second);
}

/// Of one that waits in vain for `gone`; who else is late is not to blame.
std::string ThreadExchange::gone_text(uint64_t sequence, const Collective& op, int gone) const {
  return missing_text(sequence, op, departure(gone), gone);
}

/// Of one that has come there, or cannot.
std::string ThreadExchange::words_of_failed(uint64_t sequence,
                                            const Contribution& any,
                                            int gone) const {
  return concat(any.describe(), " #", sequence, " of thread ranks: ", departure(gone));
}

std::string ThreadExchange::missing_text(uint64_t sequence,
                                         const Collective& op,
                                         const std::string& reason,
                                         std::optional<int> gone) const {
  std::vector<std::string> here, missing;
  const Contribution* any = nullptr;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (op.works[rank])
      here.push_back(std::to_string(rank));
    else if (!gone || *gone == rank)
      missing.push_back(std::to_string(rank));
    if (op.works[rank]) any = &op.parts[rank];
  }
  return concat(any->describe(),
                " #",
                sequence,
                " of thread ranks: rank ",
                join(missing, ", "),
                " did not come, rank ",
                join(here, ", "),
                " waited",
                reason.empty() ? "" : " (" + reason + ")");
}

PendingWorkPtr ThreadExchange::post(int rank,
                                    uint64_t sequence,
                                    Contribution contribution,
                                    std::chrono::milliseconds timeout) {
  auto work =
      c10::make_intrusive<PendingWork>(rank, contribution.op, sequence, contribution.results());
  tensor::StreamMark ready = tensor::StreamMark::of_current(devices_of(contribution));
  Collective whole;
  std::vector<PendingWorkPtr> failed;
  std::string failure;
  {
    std::unique_lock lock(mutex_);
    std::string refusal;
    if (gave_up_.contains(rank)) {
      refusal = concat(contribution.describe(), " on a group that has failed: ", left_.at(rank));
    } else if (left_.contains(rank)) {
      refusal = words_of_failed(sequence, contribution, rank);
    }
    if (!refusal.empty()) {
      lock.unlock();
      work->fail(refusal);
      return work;
    }
    Collective& op = collectives_[sequence];
    if (op.works.empty()) {
      op.parts.resize(static_cast<size_t>(world_size_));
      op.works.resize(static_cast<size_t>(world_size_));
      op.ready.resize(static_cast<size_t>(world_size_));
      op.timeout = timeout;
      op.deadline = Clock::now() + timeout;
    }
    op.parts[rank] = std::move(contribution);
    op.works[rank] = work;
    op.ready[rank] = std::move(ready);
    ++op.arrived;
    if (op.arrived == world_size_) {
      whole = std::move(op);
      collectives_.erase(sequence);
    } else {
      const auto first = std::ranges::find_if(in_turn_, [&](int gone) { return !op.works[gone]; });
      if (first != in_turn_.end()) {
        failure = gave_up_.contains(*first) ? words_of_failed(sequence, op.parts[rank], *first)
                                            : gone_text(sequence, op, *first);
        failed = op.works;
        collectives_.erase(sequence);
      }
    }
  }
  wake_watchdog();
  for (const auto& other : failed) {
    if (other) other->fail(failure);
  }
  if (whole.arrived == world_size_) {
    try {
      for (const tensor::StreamMark& mark : whole.ready) mark.wait_on_current();
      run_collective(whole.parts);
    } catch (...) {
      for (const auto& each : whole.works) each->fail(std::current_exception());
      return work;
    }
    whole.parts.clear();
    for (PendingWorkPtr& each : whole.works) PendingWork::end_for_another(std::move(each));
  }
  return work;
}

std::shared_ptr<ThreadExchange> ThreadExchange::part(const std::string& key,
                                                     const std::vector<int>& members,
                                                     int place) {
  std::vector<std::pair<int, std::string>> left;
  std::shared_ptr<ThreadExchange> exchange;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(parts_, [](const auto& part) { return part.second.exchange.expired(); });
    Part& part = parts_[key];
    if (!part.made) {
      const auto first = first_ ? first_ : shared_from_this();
      part.made.reset(new ThreadExchange(static_cast<int>(members.size()), first));
      part.exchange = part.made;
      part.members = part.awaited = members;
      for (const int gone : in_turn_) {
        const auto member = std::ranges::find(members, gone);
        if (member == members.end()) continue;
        left.emplace_back(static_cast<int>(member - members.begin()), left_.at(gone));
        std::erase(part.awaited, gone);
      }
    }
    exchange = part.made;
    part.came(members[static_cast<size_t>(place)]);
  }
  for (const auto& [gone, why] : left) exchange->leave(gone, why);
  return exchange;
}

void ThreadExchange::Part::came(int rank) {
  std::erase(awaited, rank);
  if (awaited.empty()) made.reset();
}

/// The groups that `rank` leaves, with its place there.
std::vector<std::pair<std::shared_ptr<ThreadExchange>, int>> ThreadExchange::parts_of(int rank) {
  std::vector<std::pair<std::shared_ptr<ThreadExchange>, int>> found;
  const std::lock_guard lock(mutex_);
  for (auto& [key, part] : parts_) {
    const auto place = std::find(part.members.begin(), part.members.end(), rank);
    const auto exchange = part.exchange.lock();
    part.came(rank);
    if (exchange && place != part.members.end())
      found.emplace_back(exchange, static_cast<int>(place - part.members.begin()));
  }
  return found;
}

std::vector<std::shared_ptr<ThreadExchange>> ThreadExchange::live_parts() {
  std::vector<std::shared_ptr<ThreadExchange>> live;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, part] : parts_)
    if (auto exchange = part.exchange.lock()) live.push_back(std::move(exchange));
  return live;
}

void ThreadExchange::leave(int rank, const std::string& why, bool withdraw) {
  Failed failed;
  {
    const std::lock_guard lock(mutex_);
    if (left_.emplace(rank, why).second) in_turn_.push_back(rank);
    drop(rank, withdraw, failed);
  }
  for (const auto& [work, text] : failed) work->fail(text);
  if (withdraw) return;  // of this group alone
  for (const auto& [part, place] : parts_of(rank)) part->leave(place, why);
}

/// What waits for a rank that is gone, or with `withdraws` what that one waits for, too: with the lock.
void ThreadExchange::drop(int rank, bool withdraws, Failed& failed) {
  for (auto op = collectives_.begin(); op != collectives_.end();) {
    const bool has_come = op->second.works[rank] != nullptr;
    if (has_come && !withdraws) {
      ++op;
      continue;
    }
    const std::string text = has_come ? words_of_failed(op->first, op->second.parts[rank], rank)
                                      : gone_text(op->first, op->second, rank);
    for (const auto& work : op->second.works) {
      if (work) failed.emplace_back(work, text);
    }
    op = collectives_.erase(op);
  }
  std::erase_if(sent_, [&](const Sent& sent) { return sent.to == rank; });
  std::erase_if(receives_, [&](const Receive& receive) {
    if (receive.from != rank && !(withdraws && receive.to == rank)) return false;
    failed.emplace_back(receive.work, receive.failure(departure(rank)));
    return true;
  });
}

void ThreadExchange::wake_watchdog() {
  ThreadExchange& with_one = first_ ? *first_ : *this;
  {
    const std::lock_guard lock(with_one.mutex_);
    with_one.woken_ = true;
  }
  with_one.changed_.notify_all();
}

void ThreadExchange::run_watchdog() {
  const auto gone = gone_;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    woken_ = false;
    lock.unlock();
    const auto next = fail_late();
    if (*gone) return;
    lock.lock();
    // A fixed far point instead of max(): adding to it inside wait_until would overflow.
    changed_.wait_until(lock, std::min(next, Clock::now() + std::chrono::hours(1)), [&] {
      return closing_ || woken_;
    });
  }
}

/// Fails what is late here and in the groups that were made from this one. Who has waited for a
/// collective in vain takes part in none of this group any more, as over other backends: whoever comes
/// later is told so at once. Returns when the next will be. Callbacks of the works may drop the last handle of any of them.
ThreadExchange::Clock::time_point ThreadExchange::fail_late() {
  const auto gone = gone_;
  auto next = Clock::time_point::max();
  Failed late;
  {
    std::vector<int> given_up;
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (auto op = collectives_.begin(); op != collectives_.end();) {
      if (op->second.deadline > now) {
        next = std::min(next, op->second.deadline);
        ++op;
        continue;
      }
      const std::string text = missing_text(
          op->first, op->second, concat("timed out after ", op->second.timeout.count(), " ms"));
      for (int rank = 0; rank < world_size_; ++rank) {
        if (!op->second.works[rank]) continue;
        late.emplace_back(op->second.works[rank], text);
        if (left_.emplace(rank, text).second) in_turn_.push_back(rank);
        if (gave_up_.insert(rank).second) given_up.push_back(rank);
      }
      op = collectives_.erase(op);
    }
    for (const int rank : given_up) drop(rank, /*withdraws=*/true, late);
    std::erase_if(receives_, [&](const Receive& receive) {
      const bool is_late = receive.deadline <= now;
      if (!is_late) next = std::min(next, receive.deadline);
      if (is_late) late.emplace_back(receive.work, receive.failure(late_words(receive.timeout)));
      return is_late;
    });
  }
  for (const auto& [work, text] : late) work->fail(text);
  if (*gone) return next;
  for (auto& part : live_parts()) {
    next = std::min(next, part->fail_late());
    part.reset();  // perhaps the last handle on it, and with it the last on us
    if (*gone) return next;
  }
  return next;
}

}  // namespace muster::distributed
