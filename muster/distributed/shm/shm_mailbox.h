// Messages between two ranks over a shared segment.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/distributed/call/messages.h"
#include "muster/distributed/call/pending_work.h"
#include "muster/distributed/shm/shm_steps.h"

namespace muster::distributed {

// Note [Mailbox]
// From each rank to each there is a ring of bytes through which messages go whole, one after the
// other: a header, then the tensor's bytes. A send is done when its last byte is in the ring, so a
// small one needs nobody to wait; a large one is copied, and moves on as the receiver makes room.
// The receiver takes the message at the head of a ring if somebody asked for its tag. If only other
// tags are asked for, it moves the message into memory of its own, so that no order of tags can
// block; if nothing is asked for, it stays in the ring, and what is behind it with its sender.
//
// What was begun is ended: a ring that holds half a message would be lost for all that follow. So a
// send whose time is over fails, and its copy goes on its way; a receive whose time is over fails,
// and what had come for it goes on into memory of the mailbox, for the next one that asks for it.
//
// Whoever calls moves as much as can be moved at once. What is left is driven by the threads that
// wait or, while none does, by the mailbox's own, started when it is first needed. A second thread
// that moves takes a core from one that computes, and a hand-over between threads of two ranks
// takes as long as their machine's scheduler pleases: so a receive that is waited for at once wakes
// nobody, and rings are so large that most messages go whole. They sleep on the doorbell in
// the rank's block, which every peer rings that wrote to it or took from it.

class ShmMailbox : public WorkHelper, public std::enable_shared_from_this<ShmMailbox> {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ShmMailbox(std::shared_ptr<ShmSteps> steps);

  /// `from` -1: from any rank. Any thread; never blocks.
  PendingWorkPtr send(int to, int tag, const at::Tensor& tensor, std::chrono::milliseconds timeout);
  /// `waits`: the caller waits for it next.
  PendingWorkPtr receive(int from,
                         int tag,
                         const at::Tensor& tensor,
                         std::chrono::milliseconds timeout,
                         bool waits = false);

  /// Waits until all that was sent is in the rings, as far as timeouts and peers allow. To
  /// collectives this rank has ended before that, to who waits for a message after it.
  void end_in_order();
  /// Fails what is pending. See OpQueue::close.
  void close(const std::string& reason);

  void help(PendingWork& work, std::optional<Clock::time_point> deadline) override;
  std::string missing() override { return ""; }

 private:
  struct Send {
    int to;
    MessageHead head;
    at::Tensor bytes;     // dense
    uint64_t done = 0;    // of head and bytes
    PendingWorkPtr work;  // null: nobody waits any more
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
  };
  struct Receive {
    int from;
    int tag;
    at::Tensor tensor;
    PendingWorkPtr work;
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
  };
  struct Kept {
    MessageHead head;
    std::vector<std::byte> bytes;
  };
  /// The message that is coming out of a ring.
  struct Inbox {
    bool open = false;
    MessageHead head;
    uint64_t done = 0;
    std::optional<Receive> receive;  // else into `kept`, or nowhere
    at::Tensor bytes;                // dense; receive's tensor or a copy
    bool keeps = false;
    Kept kept;
    std::deque<Kept> messages;  // taken out of the ring before they were asked for
  };
  struct Outcome {
    PendingWorkPtr work;
    std::string failure;
    bool misfit = false;  // a usage error
  };

  bool move_all();
  bool push(std::deque<Send>& sends, int to);
  bool pull(int from);
  bool open_next(int from, Inbox& inbox);
  void assign(Inbox& inbox, Receive& receive);
  void keep_rest(Inbox& inbox);
  bool has_room(int to, uint64_t bytes) const;
  bool make_room(int from, Inbox& inbox, const MessageHead& head);
  void complete(int from, Inbox& inbox);
  void put(const Receive& receive, const at::Tensor& bytes, int from);
  void put_kept(const Receive& receive, const Kept& kept, int from);
  bool deliver_kept(Receive& receive);
  bool fits(const Receive& receive, const MessageHead& head, int from);
  void drop_hopeless();
  void drop_sends(int to);
  void drop_half(int from);
  void drive(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds spin);
  void drive_waiting(std::unique_lock<std::mutex>& lock);
  void hand_over();
  void complete_outcomes(std::unique_lock<std::mutex>& lock);
  void start_thread();
  void serve();
  bool pending() const;
  bool gives() const;
  void ring(int other) const;
  std::string text_of(const Send& send, const std::string& why) const;
  std::string text_of(const Receive& receive, const std::string& why) const;

  const std::shared_ptr<ShmSteps> steps_;
  const ShmSegment& segment_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Send>> sends_;  // by destination
  std::list<Receive> receives_;          // in the order in which they were asked for
  std::vector<Inbox> inboxes_;           // by source
  std::vector<Outcome> outcomes_;        // to be told without the lock
  uint64_t messages_ = 0;
  int waiters_ = 0;   // threads that drive, the mailbox's own left out, and callbacks
  int sleepers_ = 0;  // on the doorbell, of all that drive
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace muster::distributed
