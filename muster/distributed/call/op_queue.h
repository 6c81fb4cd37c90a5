// Operations of one rank, done one after the other in the order in which they were issued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "muster/distributed/call/pending_work.h"

namespace muster::distributed {

// Note [Who works]
// An operation that its caller waits for at once runs on the caller's thread if nothing is in front
// of it: no other thread has to wake up, which would cost more than a small all-reduce itself.
// Others are left to a thread of the queue, started with the first of them, which makes gradients
// travel while backward computes on. A thread that waits for a Work takes the operations up to it
// into its own hands if nobody is at them.

class OpQueue : public WorkHelper, public std::enable_shared_from_this<OpQueue> {
 public:
  /// `missing` says who is waited for. It must outlive the queue's thread: capture what it needs.
  explicit OpQueue(std::function<std::string()> missing);
  ~OpQueue() override = default;

  /// `run` is what the operation does; what it throws fails `work`. With `now` the operation is
  /// done when this returns.
  void submit(const PendingWorkPtr& work, std::function<void()> run, bool now);

  /// Nothing is run any more; what is queued fails with `reason`. Waits for what is running, unless
  /// it is the caller itself that runs it.
  void close(const std::string& reason);

  void help(PendingWork& work,
            std::optional<std::chrono::steady_clock::time_point> deadline) override;
  std::string missing() override { return missing_(); }

 private:
  struct Item {
    PendingWorkPtr work;
    std::function<void()> run;
  };
  void run_next(std::unique_lock<std::mutex>& lock);
  void serve();

  const std::function<std::string()> missing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false;
  bool closed_ = false;
  std::thread::id runner_;
  std::thread thread_;
};

}  // namespace muster::distributed
