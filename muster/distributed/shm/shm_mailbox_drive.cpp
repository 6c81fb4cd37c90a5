// The mailbox's waiting side: who drives it, and what it does about peers that do not answer.
#include <algorithm>
#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/distributed/shm/futex.h"
#include "muster/distributed/shm/shm_mailbox.h"

namespace muster::distributed {
namespace {

constexpr auto kMailboxSlice = std::chrono::milliseconds(10);

/// One more while it lives.
class CountedIn {
 public:
  explicit CountedIn(int& count) : count_(count) { ++count_; }
  ~CountedIn() { --count_; }
  CountedIn(const CountedIn&) = delete;
  CountedIn& operator=(const CountedIn&) = delete;

 private:
  int& count_;
};

}  // namespace

std::string ShmMailbox::text_of(const Send& send, const std::string& why) const {
  return send_failure(
      send.head.describe(), send.head.tag, steps_->name(rank_), steps_->name(send.to), why);
}

std::string ShmMailbox::text_of(const Receive& receive, const std::string& why) const {
  const int from = receive.from < 0 ? receive.from : steps_->name(receive.from);
  return receive_failure(receive.tensor, receive.tag, steps_->name(rank_), from, why);
}

/// Tells works how they ended, which runs callbacks: without the lock.
void ShmMailbox::complete_outcomes(std::unique_lock<std::mutex>& lock) {
  while (!outcomes_.empty()) {
    std::vector<Outcome> outcomes = std::exchange(outcomes_, {});
    lock.unlock();
    for (Outcome& outcome : outcomes) {
      std::exception_ptr error;
      if (!outcome.failure.empty())
        error = outcome.misfit
                    ? std::make_exception_ptr(misfit(outcome.failure))
                    : std::make_exception_ptr(environment_error({.refused = outcome.failure}));
      PendingWork::end_for_another(std::move(outcome.work), error);
    }
    lock.lock();
    if (waiters_ > 0) ring(rank_);  // what one of them waits for may be done
  }
}

/// Of a rank that is gone all. What has waited too long fails, and goes on, though nobody waits for it
/// any more.
void ShmMailbox::drop_sends(int to) {
  auto& sends = sends_[static_cast<size_t>(to)];
  if (sends.empty()) return;
  const std::string gone = to == rank_ ? "" : steps_->departure(to);
  const auto now = Clock::now();
  std::erase_if(sends, [&](Send& send) {
    if (gone.empty() && send.deadline > now) return false;
    if (send.work)
      outcomes_.push_back(
          {send.work, text_of(send, gone.empty() ? late_words(send.timeout) : gone)});
    send.work.reset();
    return !gone.empty();
  });
}

/// The message that is coming out of this rank's ring.
void ShmMailbox::drop_half(int from) {
  Inbox& inbox = inboxes_[static_cast<size_t>(from)];
  if (!inbox.open || from == rank_) return;
  const std::string gone = steps_->sender_departure(from);
  const bool is_late = inbox.receive && inbox.receive->deadline <= Clock::now();
  if ((gone.empty() && !is_late) || pull(from) || !inbox.open) return;
  if (inbox.receive)
    outcomes_.push_back({inbox.receive->work,
                         text_of(*inbox.receive,
                                 (gone.empty() ? late_words(inbox.receive->timeout) : gone) +
                                     ", with the message half there")});
  if (gone.empty()) return keep_rest(inbox);
  inbox.receive.reset();
  inbox.open = false;
}

/// Fails what waits for a rank that is gone, or has waited too long.
void ShmMailbox::drop_hopeless() {
  const auto now = Clock::now();
  for (int other = 0; other < steps_->world_size(); ++other) {
    drop_sends(other);
    drop_half(other);
  }
  // Who is gone now has sent all that it will: what is not in the ring after this never comes.
  std::map<int, std::string> gone;
  for (const Receive& receive : receives_) {
    if (receive.from < 0 || receive.from == rank_ || gone.contains(receive.from)) continue;
    if (const std::string why = steps_->sender_departure(receive.from); !why.empty())
      gone.emplace(receive.from, why);
  }
  for (int from = 0; from < steps_->world_size(); ++from) pull(from);
  receives_.remove_if([&](const Receive& receive) {
    const auto departed = gone.find(receive.from);
    const bool left = departed != gone.end();
    if (!left && receive.deadline > now) return false;
    outcomes_.push_back(
        {receive.work, text_of(receive, left ? departed->second : late_words(receive.timeout))});
    return true;
  });
}

/// One round of moving and, if nothing moved, spinning for so long and sleeping. What is over then is to
/// be told.
void ShmMailbox::drive(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds spin) {
  RankBlock& mine = segment_.rank(rank_);
  const uint32_t heard = mine.doorbell.load();
  if (move_all()) return;
  drop_hopeless();
  if (!outcomes_.empty()) return;
  ++sleepers_;
  lock.unlock();
  const auto rung = [&] { return mine.doorbell.load() != heard; };
  if (!spin_until(rung, spin)) {
    mine.listeners.fetch_add(1);
    if (!rung()) futex_wait(mine.doorbell, heard, kMailboxSlice);
    mine.listeners.fetch_sub(1);
  }
  lock.lock();
  --sleepers_;
  if (closed_) changed_.notify_all();
}

/// A round of a thread that waits. Callbacks may wait themselves, and while one runs its thread drives
/// nothing.
void ShmMailbox::drive_waiting(std::unique_lock<std::mutex>& lock) {
  {
    const CountedIn counted(waiters_);
    drive(lock, steps_->spin());
  }
  if (outcomes_.empty()) return;
  hand_over();
  complete_outcomes(lock);
}

/// What nobody drives is the mailbox's own thread's.
void ShmMailbox::hand_over() {
  if (waiters_ == 0 && !closed_ && pending()) start_thread();
}

void ShmMailbox::help(PendingWork& work, std::optional<Clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  while (!work.isCompleted() && !closed_ && (!deadline || Clock::now() < *deadline))
    drive_waiting(lock);
  hand_over();
}

void ShmMailbox::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->serve(); });
  changed_.notify_all();
}

void ShmMailbox::serve() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (pending() && waiters_ == 0) {
      drive(lock, std::chrono::nanoseconds(0));
      complete_outcomes(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

void ShmMailbox::end_in_order() {
  std::unique_lock lock(mutex_);
  if (closed_ || steps_->has_ended()) return;
  std::atomic<uint32_t>& told = segment_.rank(rank_).gives;
  if (gives()) told.store(1, std::memory_order_release);
  lock.unlock();
  steps_->end();
  lock.lock();
  while (!closed_ && gives()) drive_waiting(lock);
  hand_over();
  told.store(0, std::memory_order_release);
  for (int other = 0; other < steps_->world_size(); ++other) ring(other);
}

void ShmMailbox::close(const std::string& reason) {
  std::thread thread;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (auto& sends : sends_) {
      for (const Send& send : sends) {
        if (send.work) outcomes_.push_back({send.work, text_of(send, reason)});
      }
      sends.clear();
    }
    for (const Receive& receive : receives_)
      outcomes_.push_back({receive.work, text_of(receive, reason)});
    receives_.clear();
    for (Inbox& inbox : inboxes_) {
      if (inbox.receive)
        outcomes_.push_back({inbox.receive->work, text_of(*inbox.receive, reason)});
      inbox.receive.reset();
      inbox.open = false;
    }
    thread.swap(thread_);
    complete_outcomes(lock);
    changed_.notify_all();
    ring(rank_);
    changed_.wait(lock, [&] { return sleepers_ == 0; });
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

}  // namespace muster::distributed
