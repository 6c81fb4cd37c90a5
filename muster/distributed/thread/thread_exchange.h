// Where ranks that are threads of one process meet: collectives by direct reads of each other's
// tensors.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/messages.h"
#include "muster/distributed/call/pending_work.h"
#include "muster/tensor/device/streams.h"

namespace muster::distributed {

// Note [Thread ranks]
// Ranks of one process share memory, so a collective needs no messages. Each rank posts its tensors
// under the sequence number of the operation and goes on; the rank that completes the set does the
// work for all, in rank order, and completes every rank's Work. Posting never blocks, so operations
// are asynchronous without a helper thread, any number may be in flight, and sums are bit-equal
// from run to run: ((r0 + r1) + r2) + r3. The board's mutex orders the tensors' memory. A rank that
// ends or fails leaves the board, and so does one whose wait for a collective was over; whoever needs
// it from then on is told its name at once instead of hanging.

/// Shared by the backends of all ranks of one group. Every member may be called from any thread.
class ThreadExchange : public std::enable_shared_from_this<ThreadExchange> {
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

  /// Point to point: see Note [Messages]. A send is complete when it returns.
  PendingWorkPtr send(int from, const Message& message);
  PendingWorkPtr receive(int to, const Message& message);

  /// The rank takes part in nothing any more. Fails whatever waits for it; `why` is empty for a
  /// normal end. `withdraw`: it does not wait itself any more either, so what it has posted and
  /// what is not complete fails, too.
  void leave(int rank, const std::string& why, bool withdraw = false);

  /// The exchange of a group of `members`, ranks of this one, of which the caller is number
  /// `place`: the same for all who ask for `key`. This one's watchdog looks after it, and who
  /// leaves this one leaves it, too. Each of the members asks once.
  std::shared_ptr<ThreadExchange> part(const std::string& key,
                                       const std::vector<int>& members,
                                       int place);

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
  /// A message that nobody has received, in memory that nobody else writes to.
  struct Sent {
    int from;
    int to;
    int tag;
    at::Tensor tensor;
    tensor::StreamMark ready = {};
  };
  struct Receive {
    int from;
    int to;
    int tag;
    at::Tensor tensor;
    PendingWorkPtr work;
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
    tensor::StreamMark ready = {};
    bool takes(const Sent& sent) const {
      return sent.to == to && sent.tag == tag && (from == sent.from || from < 0);
    }
    std::string failure(const std::string& why) const;
  };

  /// Copies, and ends the receive.
  static void deliver(const Sent& sent, Receive receive);
  struct Part {
    std::shared_ptr<ThreadExchange> made;  // until all members have come for it, or left
    std::weak_ptr<ThreadExchange> exchange;
    std::vector<int> members;
    std::vector<int> awaited;  // of them
    void came(int rank);
  };

  /// Of a group that was made from another; `first` is the first of all.
  ThreadExchange(int world_size, std::shared_ptr<ThreadExchange> first);
  using Failed = std::vector<std::pair<PendingWorkPtr, std::string>>;  // and why
  void drop(int rank, bool withdraws, Failed& failed);
  void run_watchdog();
  void wake_watchdog();
  Clock::time_point fail_late();
  std::vector<std::shared_ptr<ThreadExchange>> live_parts();
  std::vector<std::pair<std::shared_ptr<ThreadExchange>, int>> parts_of(int rank);
  std::string gone_text(uint64_t sequence, const Collective& op, int gone) const;
  std::string words_of_failed(uint64_t sequence, const Contribution& any, int gone) const;
  std::string missing_text(uint64_t sequence,
                           const Collective& op,
                           const std::string& reason,
                           std::optional<int> gone = std::nullopt) const;
  std::string departure(int rank) const;

  const int world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Collective> collectives_;
  std::deque<Sent> sent_;            // in the order in which they were sent
  std::deque<Receive> receives_;     // in the order in which they were asked for
  std::map<int, std::string> left_;  // rank -> why
  std::vector<int> in_turn_;  // the same ranks, as they left: the first may be the others' reason
  std::set<int> gave_up_;     // of them: whose wait for the others was over, in this group alone
  std::map<std::string, std::shared_ptr<void>> shared_;
  std::map<std::string, Part> parts_;
  const std::shared_ptr<ThreadExchange>
      first_;  // whose watchdog looks after this; null: it has one
  std::atomic<uint64_t> messages_{0};
  bool closing_ = false;
  bool woken_ = false;  // the watchdog
  /// Set where the watchdog itself drops the last handle, in a callback of a work that it fails.
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::thread watchdog_;
};

/// Runs a complete collective: parts[r] is rank r's. Pure but for the output tensors. Throws a
/// usage error if the parts do not fit each other.
void run_collective(std::vector<Contribution>& parts);

}  // namespace muster::distributed
