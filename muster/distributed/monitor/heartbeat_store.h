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

#include "muster/diagnose/record/diagnosis.h"

namespace muster::distributed {

struct HeartbeatOptions {
  int rank = 0;
  int world_size = 1;
  int server_rank = -1;
  std::chrono::milliseconds heartbeat{1000};
  /// Of a group that was made from another: where in that one's store its own keys are.
  std::string path = {};
  /// The store is served by a rank that is not in the group, and may end in order before it.
  bool server_outside = false;

  /// So much longer than a fast heartbeat takes a look at everybody, where they are many.
  std::chrono::milliseconds pass() const;
};

// Note [What the store is asked for]
// All ranks may be suspicious at once, of one that they all wait for. If each then read everybody,
// one store would answer the square of their number five times per heartbeat. So a rank in alarm
// reads its neighbour and seven others in each of these beats, in turn: a group of up to nine ranks
// as a whole, a larger one in several beats, which is given in addition to whatever waits for what
// everybody shows.

// Note [Groups of groups]
// A group that is made from another (split, subgroup, DeviceMesh) is a group like any other: a
// backend of its own, under a prefix of the store, recorded and monitored by itself, so that a
// failure in it is found as anywhere else and is no failure of its parent. But a rank of a pipeline
// is in three groups or four, and what a monitor needs beside memory is needed once: one thread
// beats for all groups of a rank that were made from each other, over one connection to the store
// (HeartbeatStore), and one looks after their operations (MonitorLoop). They last as long as one of
// these groups; each may be dropped before the others. What one of them waits for (a verdict, some
// heartbeats) the others wait for as well: their failures are then found later by as much.
//
// Ranks have the numbers that they have in their group. Errors and records also say which ranks of
// the first group they are, and launchers hear of those alone.

/// Runs a thread, which alone talks to the store: the store may hang when the rank that serves it
/// is stopped, and then nothing else may. All members may be called from any thread.
class HeartbeatStore {
 public:
  using Clock = std::chrono::steady_clock;

  /// With a `parent` that one's thread and connection serve this, too; `store` is not used then.
  HeartbeatStore(c10::intrusive_ptr<c10d::Store> store,
                 HeartbeatOptions options,
                 std::shared_ptr<diagnose::FlightRecorder> recorder,
                 const HeartbeatStore* parent = nullptr);
  ~HeartbeatStore();
  HeartbeatStore(const HeartbeatStore&) = delete;

  /// Tells the others that this rank has closed the group, and whether an exception made it, which
  /// said `why` if that is known, and ends the thread. Does not wait for a store that hangs. The
  /// destructor does it, too.
  void close(bool threw = false, const std::string& why = "");

  /// On: beats five times as often, and reads all peers, a few each time (see pass()). What was
  /// read before it was switched on is not fresh (PeerView::is_fresh).
  void set_alarm(bool on);
  /// Written as the group's verdict unless there is one already.
  void propose(const std::string& verdict);

  /// A collective that a rank is about to call.
  struct Call {
    uint64_t sequence = 0;
    uint64_t attempt = 0;  ///< so many calls under this number were refused on this rank before
    uint64_t fingerprint = 0;
  };
  /// Whether the rank that was first to call it called the same, as far as it has told; that is this
  /// rank where nobody has called it yet. Nothing where the store does not answer within `patience`,
  /// as WaitedTime counts it.
  std::optional<bool> agrees(const Call& call, std::chrono::milliseconds patience);
  /// The call was not made: if ours was the first, the next rank's is. Does not wait.
  void withdraw(const Call& call);

  /// The group's verdict, once there is one.
  std::optional<std::string> verdict() const;
  /// By rank, with this rank's own state as it is now.
  std::vector<diagnose::PeerView> peers() const;
  /// Since when the store is silent does not count a pause of this process, in which its answer could
  /// not be read: one between two looks, of which this is one, that is longer than two heartbeats.
  diagnose::StoreView store() const;
  void look() const;
  /// Each rank knows the verdict, or has ended, or is gone.
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
  std::chrono::milliseconds pass() const;
  /// A heartbeat older than this has stopped.
  double stale_s() const;

 private:
  /// How long the end of a group waits for a store that does not answer.
  static constexpr auto kGoodbye = std::chrono::milliseconds(400);
  struct Common;
  struct Shared;
  class Beat;
  class Beats;
  static void meet_server(Shared& shared);
  static void run(const std::shared_ptr<Common>& common);
  std::shared_ptr<Shared> shared_;
};

/// What the boards of a rank share, with the thread that serves them.
struct HeartbeatStore::Common {
  std::mutex mutex;  // of this and of all boards
  std::condition_variable changed;
  uint64_t version = 0;                         // rises with each change
  c10::intrusive_ptr<c10d::Store> store;        // until the thread has its own
  std::optional<diagnose::ProcessId> server;    // the process of the rank that serves the store
  std::vector<std::shared_ptr<Shared>> boards;  // that are not finished, in their order
  bool over = false;                            // the thread takes no more boards
};

/// Of a board and the thread, which may outlive it.
struct HeartbeatStore::Shared {
  explicit Shared(std::shared_ptr<Common> with)
      : common(std::move(with)),
        mutex(common->mutex),
        changed(common->changed),
        server(common->server) {}

  struct Question {
    Call call;
    bool withdraws = false;
    std::optional<bool> agrees;
  };
  struct Peer {
    std::optional<diagnose::PeerState> state;
    Clock::time_point since;                      // when this heartbeat was first seen
    std::optional<Clock::time_point> renewed_at;  // when one was seen that came after another
    std::optional<Clock::time_point> read_at;     // when it was last asked for
    bool was_gone = false;                        // its process had ended by then
    Clock::duration silent{};                     // between reads that showed nothing new
  };
  const std::shared_ptr<Common> common;
  HeartbeatOptions options;
  std::shared_ptr<diagnose::FlightRecorder> recorder;
  diagnose::ProcessId process = diagnose::this_process();

  std::mutex& mutex;
  std::condition_variable& changed;
  std::optional<diagnose::ProcessId>& server;
  std::vector<Peer> peers;  // by rank; only the thread writes there
  std::optional<std::string> verdict;
  std::string proposal;
  std::vector<std::shared_ptr<Question>> questions;
  std::optional<Clock::time_point> asked_at;   // a request to the store is on its way since then
  Clock::time_point looked_at = Clock::now();  // by whoever judges its silence
  Clock::time_point went_on_at = looked_at;    // behind the last pause of this process
  uint64_t beats = 0;
  int64_t alarms_seen = 0;
  int64_t told = 0;                        // ranks that have said that they know the verdict
  int alarms_heard = 0;                    // beats that still run fast because of others' alarms
  std::optional<Clock::time_point> alarm;  // ours, since when
  bool lost = false, stopping = false, threw = false, finished = false;
  std::string why;

  void bump() {
    ++common->version;
    changed.notify_all();
  }
  bool fast() const { return alarm.has_value() || alarms_heard > 0; }
};

}  // namespace muster::distributed
