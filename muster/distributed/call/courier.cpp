#include "muster/distributed/call/courier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
namespace {

constexpr int kHeads = 1, kBytes = 2;  // channels
/// Of one move: no wait of ours may be over for gloo, see Note [Courier].
constexpr auto kForever = std::chrono::milliseconds(std::chrono::hours(24 * 365));

at::Tensor bytes_of_head(const MessageHead& head) {
  const at::Tensor bytes = at::empty({sizeof head}, at::kByte);
  std::memcpy(bytes.data_ptr(), &head, sizeof head);
  return bytes;
}

std::string lost_words(int peer, const std::string& error) {
  return concat(
      "rank ", peer, " has ended, or the connection to it was lost (", first_line(error), ")");
}

std::exception_ptr environment_pointer(const std::string& text) {
  return std::make_exception_ptr(environment_error({.refused = text}));
}

}  // namespace

Courier::Courier(int rank, int world_size, Transfer send, Transfer receive)
    : rank_(rank),
      send_(std::move(send)),
      receive_(std::move(receive)),
      peers_(static_cast<size_t>(world_size)) {}

Courier::~Courier() = default;

Courier::Outcome Courier::failed(const Send& send, int to, const std::string& why) const {
  return {send.work,
          environment_pointer(send_failure(send.head.describe(), send.head.tag, rank_, to, why))};
}

Courier::Outcome Courier::failed(const Receive& receive, const std::string& why) const {
  const Message& message = receive.message;
  return {
      receive.work,
      environment_pointer(receive_failure(message.tensor, message.tag, rank_, message.peer, why))};
}

/// Runs callbacks: without the lock.
void Courier::tell(std::vector<Outcome> outcomes) {
  for (Outcome& outcome : outcomes) {
    if (outcome.work) PendingWork::end_for_another(std::move(outcome.work), outcome.error);
  }
}

PendingWorkPtr Courier::send(const Message& message) {
  const int to = message.peer;
  Send send{.head = MessageHead::of(message.tensor, message.tag),
            .bytes = own_copy(message.tensor).view(-1).view(at::kByte),
            .timeout = message.timeout,
            .deadline = Clock::now() + message.timeout};
  std::unique_lock lock(mutex_);
  const auto work = c10::make_intrusive<PendingWork>(
      rank_, c10d::OpType::SEND, messages_++, std::vector<at::Tensor>{message.tensor});
  send.work = work;
  Peer& there = peer(to);
  const std::string why = closed_ ? "the group was destroyed" : there.no_sends;
  if (!why.empty()) {
    lock.unlock();
    tell({failed(send, to, why)});
  } else if (to == rank_) {
    lock.unlock();
    deliver(rank_, send.head, send.bytes);
    work->complete();
  } else {
    there.sends.push_back(std::move(send));
    if (!there.sender.joinable())
      there.sender = std::thread([self = shared_from_this(), to] { self->run_sender(to); });
    start_watch();
  }
  return work;
}

PendingWorkPtr Courier::receive(const Message& message) {
  const int from = message.peer;
  const auto op = from < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV;
  std::unique_lock lock(mutex_);
  const auto work = c10::make_intrusive<PendingWork>(
      rank_, op, messages_++, std::vector<at::Tensor>{message.tensor});
  Receive receive{message, work, Clock::now() + message.timeout};
  for (int other = 0; other < static_cast<int>(peers_.size()) && !closed_; ++other) {
    if (from >= 0 && from != other) continue;
    std::deque<Kept>& kept = peer(other).kept;
    const auto found = std::find_if(
        kept.begin(), kept.end(), [&](const Kept& one) { return one.head.tag == message.tag; });
    if (found == kept.end()) continue;
    const Kept mine = std::move(*found);
    kept.erase(found);
    lock.unlock();
    tell({put(receive, other, mine)});
    return work;
  }
  std::string why = closed_ ? "the group was destroyed" : "";
  if (why.empty() && from >= 0) why = peer(from).no_receives;
  if (!why.empty()) {
    lock.unlock();
    tell({failed(receive, why)});
    return work;
  }
  receives_.push_back(std::move(receive));
  start_receivers(from);
  start_watch();
  return work;
}

/// With the lock. `from` kAnyRank: of all.
void Courier::start_receivers(int from) {
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    Peer& there = peer(other);
    const bool is_meant = other != rank_ && (from < 0 || from == other);
    if (!is_meant || !there.no_receives.empty() || there.receiver.joinable()) continue;
    there.receiver = std::thread([self = shared_from_this(), other] { self->run_receiver(other); });
  }
}

/// With the lock.
void Courier::start_watch() {
  if (!watch_.joinable())
    watch_ = std::thread([self = shared_from_this()] { self->watch_deadlines(); });
  changed_.notify_all();
}

bool Courier::is_wanted(int from) const {
  return ending_ || std::any_of(receives_.begin(), receives_.end(), [&](const Receive& one) {
           return one.message.peer == from || one.message.peer < 0;
         });
}

std::list<Courier::Receive>::iterator Courier::awaiting(int from, int tag) {
  return std::find_if(receives_.begin(), receives_.end(), [&](const Receive& one) {
    return one.message.tag == tag && (one.message.peer == from || one.message.peer < 0);
  });
}

/// False if the courier was closed meanwhile. Throws what the backend throws.
bool Courier::move(const Transfer& transfer, at::Tensor bytes, int peer, int channel) {
  const auto work = transfer(std::move(bytes), peer, channel);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    moving_.push_back(work);
  }
  const auto forget = [&] {
    const std::lock_guard lock(mutex_);
    std::erase(moving_, work);
  };
  try {
    const bool moved = work->wait(kForever);
    forget();
    return moved;
  } catch (...) {
    forget();
    throw;
  }
}

void Courier::run_sender(int to) {
  while (send_first(to)) {
  }
}

bool Courier::send_first(int to) {
  Peer& there = peer(to);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !there.sends.empty(); });
  if (closed_) return false;
  const MessageHead head = there.sends.front().head;
  const at::Tensor bytes = there.sends.front().bytes;
  lock.unlock();
  bool moved = false;
  std::string why;
  try {
    moved = move(send_, bytes_of_head(head), to, kHeads) &&
            (head.bytes == 0 || move(send_, bytes, to, kBytes));
  } catch (const std::exception&) {
    why = lost_words(to, tensor::what_of(std::current_exception()));
  }
  lock.lock();
  if (closed_) return false;
  std::vector<Outcome> outcomes;
  if (moved) {
    outcomes.push_back({there.sends.front().work, nullptr});
    there.sends.pop_front();
  } else {
    there.no_sends = why.empty() ? "the backend was aborted" : why;
    for (const Send& send : there.sends) outcomes.push_back(failed(send, to, there.no_sends));
    there.sends.clear();
  }
  changed_.notify_all();
  lock.unlock();
  tell(std::move(outcomes));
  return moved;
}

void Courier::run_receiver(int from) {
  while (receive_next(from)) {
  }
}

bool Courier::receive_next(int from) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || is_wanted(from); });
    if (closed_) return false;
  }
  try {
    const at::Tensor first = bytes_of_head({});
    if (!move(receive_, first, from, kHeads)) return false;
    MessageHead head;
    std::memcpy(&head, first.const_data_ptr(), sizeof head);
    const at::Tensor bytes = at::empty({static_cast<int64_t>(head.bytes)}, at::kByte);
    if (head.bytes > 0 && !move(receive_, bytes, from, kBytes)) return false;
    deliver(from, head, bytes);
    return true;
  } catch (const std::exception&) {
    fail_receives(from, lost_words(from, tensor::what_of(std::current_exception())));
    return false;
  }
}

void Courier::deliver(int from, const MessageHead& head, const at::Tensor& bytes) {
  std::unique_lock lock(mutex_);
  const auto found = awaiting(from, head.tag);
  if (found == receives_.end()) {
    if (!ending_) peer(from).kept.push_back({head, bytes});
    return;
  }
  Receive receive = std::move(*found);
  receives_.erase(found);
  lock.unlock();
  std::vector<Outcome> outcomes{put(receive, from, {head, bytes})};
  receive = {};  // holds the tensor, too
  tell(std::move(outcomes));
}

Courier::Outcome Courier::put(const Receive& receive, int from, const Kept& kept) const {
  const Message& message = receive.message;
  const auto failure = [&](const std::string& why) {
    return receive_failure(message.tensor, message.tag, rank_, message.peer, why);
  };
  if (!kept.head.fits(message.tensor)) {
    return {receive.work,
            std::make_exception_ptr(
                misfit(failure(misfit_words(from, kept.head.describe(), message.tensor))))};
  }
  try {
    const c10::NoGradGuard no_grad;
    if (kept.head.bytes > 0)
      at::Tensor(message.tensor)
          .copy_(kept.bytes.view(message.tensor.scalar_type()).view(message.tensor.sizes()));
    receive.work->set_source(from);
    return {receive.work, nullptr};
  } catch (const std::exception&) {
    return {receive.work, environment_pointer(failure(tensor::what_of(std::current_exception())))};
  }
}

/// Those that only this rank could have served.
void Courier::fail_receives(int from, const std::string& why) {
  std::vector<Outcome> outcomes;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    peer(from).no_receives = why;
    bool any_left = false;
    for (int other = 0; other < static_cast<int>(peers_.size()); ++other)
      any_left |= other != rank_ && peer(other).no_receives.empty();
    receives_.remove_if([&](const Receive& one) {
      if (one.message.peer != from && (one.message.peer >= 0 || any_left)) return false;
      outcomes.push_back(failed(one, why));
      return true;
    });
  }
  tell(std::move(outcomes));
}

/// Returns when the next one is over.
Courier::Clock::time_point Courier::drop_late(std::vector<Outcome>& outcomes) {
  const auto now = Clock::now();
  auto next = now + std::chrono::hours(1);
  receives_.remove_if([&](const Receive& one) {
    if (one.deadline > now) next = std::min(next, one.deadline);
    if (one.deadline > now) return false;
    outcomes.push_back(failed(one, late_words(one.message.timeout)));
    return true;
  });
  for (int to = 0; to < static_cast<int>(peers_.size()); ++to) {
    for (Send& send :
         peer(to).sends) {  // who waits for it is told; it stays, as over shared memory
      if (send.work && send.deadline > now) next = std::min(next, send.deadline);
      if (!send.work || send.deadline > now) continue;
      outcomes.push_back(failed(send, to, late_words(send.timeout)));
      send.work.reset();
    }
  }
  return next;
}

void Courier::watch_deadlines() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    std::vector<Outcome> outcomes;
    const auto next = drop_late(outcomes);
    if (outcomes.empty()) {
      changed_.wait_until(lock, next);
      continue;
    }
    changed_.notify_all();
    lock.unlock();
    tell(std::move(outcomes));
    lock.lock();
  }
}

bool Courier::gives() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& one) {
    return std::any_of(
        one.sends.begin(), one.sends.end(), [](const Send& send) { return send.work != nullptr; });
  });
}

void Courier::end_in_order() {
  std::unique_lock lock(mutex_);
  if (closed_ || !gives()) return;
  ending_ = true;
  start_receivers(kAnyRank);
  changed_.notify_all();
  changed_.wait(lock, [&] { return closed_ || !gives(); });
}

void Courier::close(const std::string& reason) {
  std::vector<Outcome> outcomes;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (int to = 0; to < static_cast<int>(peers_.size()); ++to) {
      Peer& there = peer(to);
      for (const Send& send : std::exchange(there.sends, {}))
        outcomes.push_back(failed(send, to, reason));
      for (std::thread* one : {&there.sender, &there.receiver})
        if (one->joinable()) threads.push_back(std::move(*one));
    }
    for (const Receive& receive : std::exchange(receives_, {}))
      outcomes.push_back(failed(receive, reason));
    if (watch_.joinable()) threads.push_back(std::move(watch_));
    for (const auto& work : moving_) work->abort();
    changed_.notify_all();
  }
  tell(std::move(outcomes));
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();  // a callback of ours dropped the group
    else
      thread.join();
  }
}

}  // namespace muster::distributed
