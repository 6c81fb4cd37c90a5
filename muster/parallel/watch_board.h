// The heartbeat of one rank, and what it learns of the others through the group's store.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/parallel/formats/diagnosis.h"

namespace muster::parallel {

struct BoardOptions {
  int rank = 0;
  int world_size = 1;
  int server_rank = -1;
  std::chrono::milliseconds heartbeat{1000};
};

/// Runs a thread of its own, which alone talks to the store: the store may hang when the rank that
/// serves it is stopped, and then nothing else may. All members may be called from any thread.
class WatchBoard {
 public:
  using Clock = std::chrono::steady_clock;

  WatchBoard(c10::intrusive_ptr<c10d::Store> store,
             BoardOptions options,
             std::shared_ptr<FlightRecorder> recorder);
  /// Tells the others that this rank has closed the group. Does not wait for a store that hangs.
  ~WatchBoard();
  WatchBoard(const WatchBoard&) = delete;

  /// On: beats five times as often, and reads all peers each time.
  void set_alarm(bool on);
  /// Written as the group's verdict unless there is one already.
  void propose(const std::string& verdict);

  /// Whether the rank that was first to call collective `sequence` called the same, as far as it
  /// has told. Waits for the store no longer than a heartbeat; in doubt, true.
  bool agrees(uint64_t sequence, uint64_t fingerprint);

  /// The group's verdict, once there is one.
  std::optional<std::string> verdict() const;
  /// By rank, with this rank's own state as it is now.
  std::vector<PeerView> peers() const;
  StoreView store() const;
  /// Each rank but ours knows the verdict, or has ended, or is gone.
  bool all_told() const;
  /// Whether the neighbour's chain and ours differ.
  bool neighbour_disagrees() const;
  /// All peers have been read, with heartbeats that they wrote after `since`.
  bool is_fresh(Clock::time_point since) const;

  /// Rises with everything that is learnt here, and with wake().
  uint64_t version() const;
  /// Until the version is another one than `seen`, or `until`.
  void wait_until(uint64_t seen, Clock::time_point until);
  void wake();

  std::chrono::milliseconds heartbeat() const;
  /// With an alarm.
  std::chrono::milliseconds fast_heartbeat() const;
  /// A heartbeat older than this has stopped.
  double stale_s() const;

 private:
  struct Shared;
  class Beat;
  static void meet_server(Shared& shared);
  static void beat(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace muster::parallel
