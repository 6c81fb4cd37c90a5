// Messages over a backend that can move bytes between two ranks, and no more than that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/distributed/call/messages.h"
#include "muster/distributed/call/pending_work.h"

namespace muster::distributed {

// Note [Courier]
// gloo by itself lets a send wait for its receive, takes bytes for what they are not, and closes
// all connections of a group when one wait is too long. So its sends and receives are used by
// threads of ours alone, which wait as long as it takes: one for each rank that something is sent
// to, and one for each that something is awaited from, started when they are first needed. A
// message is a head and its bytes. It comes into memory of ours, is compared with what was asked
// for, and is copied to its tensor; what was not asked for is kept. A thread takes messages only
// while somebody waits for one of that rank: what nobody wants stays with its sender. When the rank
// is gone, its thread learns of it from its connection, and so does who waits. Timeouts are looked
// at by one more thread.

class Courier : public std::enable_shared_from_this<Courier> {
 public:
  using Clock = std::chrono::steady_clock;
  using Transfer =
      std::function<c10::intrusive_ptr<c10d::Work>(at::Tensor bytes, int peer, int channel)>;

  /// `send` and `receive` begin to move bytes; works of theirs end by wait(), or by abort() from
  /// another thread, and both throw when the connection to `peer` is lost. Not called after
  /// close().
  Courier(int rank, int world_size, Transfer send, Transfer receive);
  ~Courier();

  /// Any thread; never blocks. Messages have a timeout, and a peer that is a rank or, of a receive,
  /// kAnyRank.
  PendingWorkPtr send(const Message& message);
  PendingWorkPtr receive(const Message& message);

  /// Waits until all that was sent has left, but for what is late; meanwhile it takes and drops what
  /// nobody asks for, so that two ranks which end do not wait for each other.
  void end_in_order();
  /// Fails what is pending, and joins the threads (but the one that calls it).
  void close(const std::string& reason);

 private:
  struct Send {
    MessageHead head;
    at::Tensor bytes;
    PendingWorkPtr work;  // null: nobody waits any more
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
  };
  struct Receive {
    Message message;
    PendingWorkPtr work;
    Clock::time_point deadline;
  };
  struct Kept {
    MessageHead head;
    at::Tensor bytes;  // uint8
  };
  struct Peer {
    std::deque<Send> sends;
    std::deque<Kept> kept;
    std::string no_sends, no_receives;  // why, when its connection is lost
    std::thread sender, receiver;
  };
  struct Outcome {
    PendingWorkPtr work;
    std::exception_ptr error;
  };

  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  bool is_wanted(int from) const;
  bool gives() const;
  bool move(const Transfer& transfer, at::Tensor bytes, int peer, int channel);
  void run_sender(int to);
  void run_receiver(int from);
  bool send_first(int to);
  bool receive_next(int from);
  void start_receivers(int from);
  void deliver(int from, const MessageHead& head, const at::Tensor& bytes);
  std::list<Receive>::iterator awaiting(int from, int tag);
  Outcome put(const Receive& receive, int from, const Kept& kept) const;
  void fail_receives(int from, const std::string& why);
  void watch_deadlines();
  Clock::time_point drop_late(std::vector<Outcome>& outcomes);
  void start_watch();
  Outcome failed(const Send& send, int to, const std::string& why) const;
  Outcome failed(const Receive& receive, const std::string& why) const;
  static void tell(std::vector<Outcome> outcomes);

  const int rank_;
  const Transfer send_, receive_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::list<Receive> receives_;  // in the order in which they were asked for
  std::vector<c10::intrusive_ptr<c10d::Work>> moving_;
  std::thread watch_;
  uint64_t messages_ = 0;
  bool ending_ = false, closed_ = false;
};

}  // namespace muster::distributed
