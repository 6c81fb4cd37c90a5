#include "muster/distributed/shm/shm_mailbox.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/distributed/shm/futex.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
namespace {

constexpr size_t kPiece = 64 << 10;  // published at once, so that both sides copy at a time

/// Copies `size` bytes into or out of a ring, `at` bytes behind its first, however often it went round.
void ring_write(std::byte* ring, size_t capacity, uint64_t at, const void* from, size_t size) {
  const size_t start = at % capacity, first = std::min(size, capacity - start);
  std::memcpy(ring + start, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, size - first);
}

void ring_read(const std::byte* ring, size_t capacity, uint64_t at, void* into, size_t size) {
  const size_t start = at % capacity, first = std::min(size, capacity - start);
  std::memcpy(into, ring + start, first);
  std::memcpy(static_cast<std::byte*>(into) + first, ring, size - first);
}

}  // namespace

ShmMailbox::ShmMailbox(std::shared_ptr<ShmSteps> steps)
    : steps_(std::move(steps)),
      segment_(steps_->segment()),
      rank_(steps_->rank()),
      sends_(static_cast<size_t>(steps_->world_size())),
      inboxes_(static_cast<size_t>(steps_->world_size())) {}

PendingWorkPtr ShmMailbox::send(int to,
                                int tag,
                                const at::Tensor& tensor,
                                std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  auto work = c10::make_intrusive<PendingWork>(steps_->name(rank_),
                                               c10d::OpType::SEND,
                                               messages_++,
                                               std::vector<at::Tensor>{tensor},
                                               weak_from_this());
  Send send{.to = to,
            .head = MessageHead::of(tensor, tag),
            .bytes = dense(tensor),
            .work = work,
            .timeout = timeout,
            .deadline = Clock::now() + timeout};
  // The caller may write its tensor when this returns.
  if (!has_room(to, send.head.bytes)) send.bytes = own_copy(tensor);
  if (closed_) {
    outcomes_.push_back({work, text_of(send, "the group was destroyed")});
  } else {
    sends_[static_cast<size_t>(to)].push_back(std::move(send));
    move_all();
    hand_over();
  }
  complete_outcomes(lock);
  return work;
}

PendingWorkPtr ShmMailbox::receive(
    int from, int tag, const at::Tensor& tensor, std::chrono::milliseconds timeout, bool waits) {
  std::unique_lock lock(mutex_);
  auto work =
      c10::make_intrusive<PendingWork>(steps_->name(rank_),
                                       from < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
                                       messages_++,
                                       std::vector<at::Tensor>{tensor},
                                       weak_from_this());
  Receive receive{from, tag, tensor, work, timeout, Clock::now() + timeout};
  if (closed_) {
    outcomes_.push_back({work, text_of(receive, "the group was destroyed")});
  } else if (!deliver_kept(receive)) {
    receives_.push_back(std::move(receive));
    move_all();
    if (!waits) hand_over();
  }
  complete_outcomes(lock);
  return work;
}

/// Whether a message of so many bytes would go at once.
bool ShmMailbox::has_room(int to, uint64_t bytes) const {
  const ChannelEnds& ends = segment_.ends(rank_, to);
  const uint64_t used =
      ends.written.load(std::memory_order_relaxed) - ends.read.load(std::memory_order_acquire);
  return sends_[static_cast<size_t>(to)].empty() &&
         bytes + sizeof(MessageHead) <= segment_.channel_bytes() - used;
}

/// Whether another rank is still to get something, and its time is not over.
bool ShmMailbox::gives() const {
  return std::any_of(sends_.begin(), sends_.end(), [&](const auto& sends) {
    return std::any_of(sends.begin(), sends.end(), [&](const Send& send) {
      return send.to != rank_ && send.work;
    });
  });
}

bool ShmMailbox::pending() const {
  return !receives_.empty() ||
         std::any_of(sends_.begin(), sends_.end(), [](const auto& q) { return !q.empty(); }) ||
         std::any_of(inboxes_.begin(), inboxes_.end(), [](const Inbox& i) { return i.open; });
}

void ShmMailbox::ring(int other) const {
  RankBlock& block = segment_.rank(other);
  block.doorbell.fetch_add(1);
  if (block.listeners.load() > 0) futex_wake_all(block.doorbell);
}

/// Whether anything moved. With the lock.
bool ShmMailbox::move_all() {
  bool moved = false;
  for (int other = 0; other < steps_->world_size(); ++other) {
    moved = push(sends_[static_cast<size_t>(other)], other) || moved;
    moved = pull(other) || moved;
  }
  return moved;
}

bool ShmMailbox::push(std::deque<Send>& sends, int to) {
  if (sends.empty()) return false;
  ChannelEnds& ends = segment_.ends(rank_, to);
  std::byte* ring_bytes = segment_.channel(rank_, to);
  const size_t capacity = segment_.channel_bytes();
  bool moved = false;
  while (!sends.empty()) {
    Send& send = sends.front();
    const uint64_t written = ends.written.load(std::memory_order_relaxed);
    const uint64_t read = ends.read.load(std::memory_order_acquire);
    // An empty ring begins anew at its first byte: there the caches have it, and where little is
    // under way, little of the ring becomes memory.
    if (read == written) ends.base.store(written, std::memory_order_relaxed);
    const uint64_t at = written - ends.base.load(std::memory_order_relaxed);
    const size_t room = capacity - (written - read);
    size_t size = 0;
    if (send.done == 0) {
      if (room < sizeof(MessageHead)) break;
      size = sizeof(MessageHead);
      ring_write(ring_bytes, capacity, at, &send.head, size);
    } else {
      const uint64_t sent = send.done - sizeof(MessageHead);
      size = std::min<size_t>({room, kPiece, send.head.bytes - sent});
      if (size == 0 && sent < send.head.bytes) break;
      if (size > 0)
        ring_write(ring_bytes,
                   capacity,
                   at,
                   static_cast<const std::byte*>(send.bytes.data_ptr()) + sent,
                   size);
    }
    ends.written.store(written + size, std::memory_order_release);
    send.done += size;
    moved = true;
    // The head is rung with the first bytes, so that a small message wakes the other side once.
    if (send.done > sizeof(MessageHead) || send.head.bytes == 0) ring(to);
    if (send.done < sizeof(MessageHead) + send.head.bytes) continue;
    if (send.work) outcomes_.push_back({send.work, ""});
    sends.pop_front();
  }
  return moved;
}

/// Takes the next head out of the ring if there is a use for the message.
bool ShmMailbox::open_next(int from, Inbox& inbox) {
  ChannelEnds& ends = segment_.ends(from, rank_);
  const uint64_t read = ends.read.load(std::memory_order_relaxed);
  if (ends.written.load(std::memory_order_acquire) - read < sizeof(MessageHead)) return false;
  MessageHead head;
  const uint64_t at = read - ends.base.load(std::memory_order_relaxed);
  ring_read(segment_.channel(from, rank_), segment_.channel_bytes(), at, &head, sizeof head);
  const auto wanted = std::find_if(receives_.begin(), receives_.end(), [&](const Receive& one) {
    return one.tag == head.tag && (one.from == from || one.from < 0);
  });
  const bool in_the_way = std::any_of(receives_.begin(), receives_.end(), [&](const Receive& one) {
    return one.from == from || one.from < 0;
  });
  inbox.keeps = false;
  if (wanted == receives_.end() && (!in_the_way || !make_room(from, inbox, head))) return false;
  inbox.open = true;
  inbox.head = head;
  inbox.done = 0;
  if (wanted != receives_.end()) {
    // A receive that does not fit has failed, and takes its message with it.
    if (fits(*wanted, head, from)) assign(inbox, *wanted);
    receives_.erase(wanted);
  }
  ends.read.store(read + sizeof head, std::memory_order_release);
  return true;
}

/// The message that comes out of the ring is for `receive`, or for nobody if that fails.
void ShmMailbox::assign(Inbox& inbox, Receive& receive) {
  try {
    const at::Tensor& tensor = receive.tensor;
    inbox.bytes = dense(tensor);
  } catch (const std::exception&) {
    outcomes_.push_back(
        {receive.work, text_of(receive, tensor::what_of(std::current_exception()))});
    return;
  }
  inbox.receive = std::move(receive);
}

/// Nobody waits any more for the message that comes out of the ring: what is there, and what is to
/// come, is for the next who asks. Where there is no memory it is for nobody.
void ShmMailbox::keep_rest(Inbox& inbox) {
  try {
    inbox.kept = {inbox.head, std::vector<std::byte>(inbox.head.bytes)};
    if (inbox.done > 0) std::memcpy(inbox.kept.bytes.data(), inbox.bytes.data_ptr(), inbox.done);
    inbox.keeps = true;
  } catch (const std::exception&) {
    inbox.keeps = false;
  }
  inbox.receive.reset();
  inbox.bytes = at::Tensor();
}

/// Memory for a message that is in the way. Where there is none it stays in the ring, and whoever
/// waits for what is behind it fails.
bool ShmMailbox::make_room(int from, Inbox& inbox, const MessageHead& head) {
  try {
    inbox.kept = {head, std::vector<std::byte>(head.bytes)};
    inbox.keeps = true;
    return true;
  } catch (const std::exception&) {
    const std::string why = concat("rank ",
                                   steps_->name(from),
                                   " sent ",
                                   head.describe(),
                                   " tag ",
                                   head.tag,
                                   " before, for which there is no memory: ",
                                   tensor::what_of(std::current_exception()));
    receives_.remove_if([&](const Receive& one) {
      if (one.from != from && one.from >= 0) return false;
      outcomes_.push_back({one.work, text_of(one, why)});
      return true;
    });
    return false;
  }
}

bool ShmMailbox::pull(int from) {
  Inbox& inbox = inboxes_[static_cast<size_t>(from)];
  ChannelEnds& ends = segment_.ends(from, rank_);
  bool moved = false;
  while (inbox.open || open_next(from, inbox)) {
    const uint64_t read = ends.read.load(std::memory_order_relaxed);
    const uint64_t here = ends.written.load(std::memory_order_acquire) - read;
    const size_t size = std::min<size_t>({here, kPiece, inbox.head.bytes - inbox.done});
    if (size == 0 && inbox.done < inbox.head.bytes) break;
    if (size > 0) {
      std::byte* into = inbox.receive ? static_cast<std::byte*>(inbox.bytes.data_ptr())
                        : inbox.keeps ? inbox.kept.bytes.data()
                                      : nullptr;
      if (into != nullptr) {
        const uint64_t at = read - ends.base.load(std::memory_order_relaxed);
        ring_read(
            segment_.channel(from, rank_), segment_.channel_bytes(), at, into + inbox.done, size);
      }
      ends.read.store(read + size, std::memory_order_release);
      inbox.done += size;
      ring(from);
    }
    moved = true;
    if (inbox.done == inbox.head.bytes) complete(from, inbox);
  }
  return moved;
}

void ShmMailbox::complete(int from, Inbox& inbox) {
  inbox.open = false;
  if (inbox.receive) {
    const Receive receive = *std::exchange(inbox.receive, std::nullopt);
    return put(receive, std::exchange(inbox.bytes, at::Tensor()), from);
  }
  if (!std::exchange(inbox.keeps, false)) return;
  inbox.messages.push_back(std::move(inbox.kept));
  // It may have been asked for meanwhile.
  for (auto one = receives_.begin(); one != receives_.end(); ++one) {
    if (!deliver_kept(*one)) continue;
    receives_.erase(one);
    return;
  }
}

void ShmMailbox::put_kept(const Receive& receive, const Kept& kept, int from) {
  at::Tensor bytes;
  try {
    bytes = dense(receive.tensor);
    if (!kept.bytes.empty()) std::memcpy(bytes.data_ptr(), kept.bytes.data(), kept.bytes.size());
  } catch (const std::exception&) {
    outcomes_.push_back(
        {receive.work, text_of(receive, tensor::what_of(std::current_exception()))});
    return;
  }
  put(receive, bytes, from);
}

/// The message is there, all of it.
void ShmMailbox::put(const Receive& receive, const at::Tensor& bytes, int from) {
  std::string failure;
  try {
    const c10::NoGradGuard no_grad;
    if (!bytes.is_same(receive.tensor)) at::Tensor(receive.tensor).copy_(bytes);
    receive.work->set_source(from);
  } catch (const std::exception&) {
    failure = text_of(receive, tensor::what_of(std::current_exception()));
  }
  outcomes_.push_back({receive.work, failure});
}

bool ShmMailbox::fits(const Receive& receive, const MessageHead& head, int from) {
  if (head.fits(receive.tensor)) return true;
  outcomes_.push_back(
      {receive.work,
       text_of(receive, misfit_words(steps_->name(from), head.describe(), receive.tensor)),
       true});
  return false;
}

/// True if the receive is done, in whatever way.
bool ShmMailbox::deliver_kept(Receive& receive) {
  for (int from = 0; from < steps_->world_size(); ++from) {
    if (receive.from >= 0 && receive.from != from) continue;
    auto& messages = inboxes_[static_cast<size_t>(from)].messages;
    const auto found = std::find_if(messages.begin(), messages.end(), [&](const Kept& kept) {
      return kept.head.tag == receive.tag;
    });
    if (found == messages.end()) continue;
    if (fits(receive, found->head, from)) put_kept(receive, *found, from);
    messages.erase(found);
    return true;
  }
  return false;
}

}  // namespace muster::distributed
