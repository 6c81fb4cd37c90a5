// The groups that a group of two levels is made of, and what one operation does on them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/two_level/two_level.h"

namespace muster::distributed {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

/// See Note [Two levels].
inline std::chrono::milliseconds timeout_inside(std::chrono::milliseconds timeout) {
  return timeout + timeout / 2;
}

/// What ends the waits of one rank between hosts when its group is closed. gloo's own cannot be
/// interrupted, and last until the operation's timeout.
class Interrupt {
 public:
  /// Until the work is done, which it rethrows the error of, or `now`. Throws an environment error
  /// then; the work goes on.
  void wait(const c10::intrusive_ptr<c10d::Work>& work);
  /// All waits end, now and from now on. Any thread.
  void now(const std::string& reason);
  /// A wait was ended: the other backend is still at it.
  bool left_work() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::string reason;  // empty: not closed
    bool left_work = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // callbacks outlive us
};

/// A part, and how long an operation may wait in it.
struct Side {
  c10d::Backend& group;
  std::chrono::milliseconds timeout;
  Interrupt* interrupt = nullptr;  ///< where the group's own `abort` does not end waits
};

struct TwoLevelBackend::Parts {
  Parts(const BackendRequest& request,
        const std::vector<std::vector<int>>& hosts,
        const BackendEntry& inside_entry,
        const BackendEntry& between_entry);
  ~Parts();

  int local_rank(int rank) const { return local_ranks[static_cast<size_t>(rank)]; }
  int host_of(int rank) const { return hosts_by_rank[static_cast<size_t>(rank)]; }
  bool same_host(int other) const { return host_of(other) == host; }
  bool leads() const { return local_rank(rank) == 0; }
  const std::vector<int>& neighbours() const { return hosts[static_cast<size_t>(host)]; }

  /// Tells everybody why, and closes what others wait at. Any thread; the first reason stays.
  void fail(const std::string& reason);
  /// This rank waits for nobody any more. Any thread.
  void close(const std::string& reason);
  /// Throws if the group has failed.
  void require_alive() const;
  /// What to say of an error between hosts: the reason of whoever failed first, if it can be had.
  std::string explain(const std::string& error) const;
  /// Why the group failed, as whoever failed first has it; empty if nobody has, or it cannot be had.
  std::string known_failure() const;

  const c10::intrusive_ptr<c10d::Store> store;
  const std::vector<std::vector<int>> hosts;
  const int rank, world_size;
  int host = 0;
  std::vector<int> hosts_by_rank, local_ranks;
  BackendPtr inside, leaders, all;  // leaders: null for the led
  Interrupt interrupt;

 private:
  void drop(BackendPtr& between);

  mutable std::mutex mutex_;
  std::string failure_;
};

/// One operation of one rank, from agreement to result. Blocks.
class TwoLevelBackend::Run {
 public:
  Run(Parts& parts, const Contribution& part, std::chrono::milliseconds timeout)
      : parts_(parts), part_(part), timeout_(timeout) {}

  void agree(const OpSignature& signature) const;
  void move();

 private:
  Side inside() const { return {*parts_.inside, timeout_inside(timeout_)}; }
  Side leaders() const { return {*parts_.leaders, timeout_, &parts_.interrupt}; }
  Side all() const { return {*parts_.all, timeout_, &parts_.interrupt}; }

  void reduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType op) const;
  void combine_leaders(at::Tensor& tensor, c10d::ReduceOp::RedOpType op) const;
  void reduce_to_root() const;
  void reduce_scatter() const;
  void broadcast() const;
  at::Tensor gather_all(const at::Tensor& bytes) const;
  void all_gather() const;
  void gather() const;
  void scatter() const;
  void all_to_all() const;
  at::Tensor check_sizes(const std::vector<int64_t>& gives,
                         const std::vector<int64_t>& takes) const;
  void check_lists() const;

  Parts& parts_;
  const Contribution& part_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace muster::distributed
