// Where ranks that are threads of one process meet: collectives by direct reads of each other's
// tensors.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/pending_work.h"
#include "muster/tensor/device/streams.h"

namespace muster::distributed {

// Note [Thread ranks]
// Ranks of one process share memory, so a collective needs no messages. Each rank posts its tensors
// under the sequence number of the operation and goes on; the rank that completes the set does the
// work for all, in rank order, and completes every rank's Work. Posting never blocks, so operations
// are asynchronous without a helper thread, any number may be in flight, and sums are bit-equal
// from run to run: ((r0 + r1) + r2) + r3. The board's mutex orders the tensors' memory. A rank that
// ends or fails leaves the board; whoever needs it from then on is told its name at once instead of
// hanging.

/// Shared by the backends of all ranks of one group. Every member may be called from any thread.
class ThreadExchange {
 public:
  explicit ThreadExchange(int world_size);
  ~ThreadExchange();
  ThreadExchange(const ThreadExchange&) = delete;

  int world_size() const { return world_size_; }

  /// Collective number `sequence` of this rank. Never blocks.
  PendingWorkPtr post(int rank,
                      uint64_t sequence,
                      Contribution contribution,
                      std::chrono::milliseconds timeout);

  /// Point to point: completes when both sides are there. `source` -1 takes from any rank.
  PendingWorkPtr send(
      int from, int to, int tag, at::Tensor tensor, std::chrono::milliseconds timeout);
  PendingWorkPtr receive(
      int source, int to, int tag, at::Tensor tensor, std::chrono::milliseconds timeout);

  /// The rank takes part in nothing any more. Fails whatever waits for it; `why` is empty for a
  /// normal end. `withdraw`: it does not wait itself any more either, so what it has posted and
  /// what is not complete fails, too.
  void leave(int rank, const std::string& why, bool withdraw = false);

  /// What the ranks share beside the board: made by the first that asks for `key`, and kept.
  template <class T, class Make>
  std::shared_ptr<T> shared(const std::string& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& found = shared_[key];
    if (!found) found = make();
    return std::static_pointer_cast<T>(found);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Collective {
    std::vector<Contribution> parts;
    std::vector<PendingWorkPtr> works;      // null: not arrived
    std::vector<tensor::StreamMark> ready;  // by rank; see Note [Collectives between devices]
    int arrived = 0;
    std::chrono::milliseconds timeout{};
    Clock::time_point deadline;
  };
  struct Pending {
    int from;
    int to;
    int tag;
    bool sends;
    at::Tensor tensor;
    PendingWorkPtr work;
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
    tensor::StreamMark ready = {};
  };

  PendingWorkPtr meet(Pending mine);
  /// Copies. Throws if the two do not fit, or what the copy throws.
  static void deliver(const Pending& sender, const Pending& receiver);
  void run_watchdog();
  std::string missing_text(uint64_t sequence,
                           const Collective& op,
                           const std::string& reason) const;
  std::string departure(int rank) const;

  const int world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Collective> collectives_;
  std::vector<Pending> pending_;
  std::map<int, std::string> left_;  // rank -> why
  std::map<std::string, std::shared_ptr<void>> shared_;
  std::atomic<uint64_t> messages_{0};
  bool closing_ = false;
  /// Set where the watchdog itself drops the last handle, in a callback of a work that it fails.
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::thread watchdog_;
};

/// Runs a complete collective: parts[r] is rank r's. Pure but for the output tensors. Throws a
/// usage error if the parts do not fit each other.
void run_collective(std::vector<Contribution>& parts);

}  // namespace muster::distributed
