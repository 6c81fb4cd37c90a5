// What a rank did in a group, lately: a bounded ring of its operations, cheap enough to be always
// on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/diagnose/record/op_record.h"

namespace muster::diagnose {

// Note [Chain of operations]
// Ranks of a group must call the same collectives in the same order. Each rank keeps a hash over
// the fingerprints of all its collectives so far. Two ranks can compare only where both know the
// hash after the same number of collectives, and they are rarely equally far when they look. So a
// rank keeps, for every j, the hash after the largest multiple of 2^j that it has passed: two ranks
// that are d operations apart share the marks of all 2^j that lie before both, and the chance that
// a boundary lies between them falls with 2^j. That costs two stores per operation on average, and
// finds a difference even where the backend computed on without noticing.

/// The hash over the first `count` collectives.
struct ChainMark {
  uint64_t count = 0;
  uint64_t hash = 0;
  bool operator==(const ChainMark&) const = default;
};

/// How a rank stands, in numbers.
struct Standing {
  uint64_t posted = 0;     ///< collectives called
  uint64_t completed = 0;  ///< collectives that are done or failed, with all before them
  /// Collectives that every rank has called for sure: up to the newest that is done here and that
  /// ends on no rank before all have called it.
  uint64_t proven = 0;
  /// The same if a collective before that one failed: the group lives on after it; else 0.
  uint64_t survived = 0;
  bool waiting = false;  ///< a thread waits for `waits_for` now
  OpRecord waits_for;    ///< the oldest that is waited for
  int64_t last_ns = 0;   ///< when the last operation was posted, waited for, or done
  int64_t step = -1;
  std::optional<OpRecord> last;  ///< the last collective called
};

/// One rank's recorder for one group. Every member may be called from any thread.
class FlightRecorder {
 public:
  /// Monotonic clock (steady_clock), nanoseconds.
  static int64_t now_ns();

  /// `clock`: nanoseconds; another one is for tests.
  explicit FlightRecorder(size_t capacity = 1024, std::function<int64_t()> clock = &now_ns);

  /// Numbers the operation (id, sequence, step, posted_ns are filled in) and keeps it. Returns it.
  OpRecord post(OpRecord record);
  /// Of a call that was posted as one that does not stand yet, and whether it does from now on.
  void let_stand(uint64_t id, bool stands = true);
  /// The backend refused the call that was posted last: it does not count.
  void take_back(uint64_t id);
  void begin_wait(uint64_t id);
  /// The wait ended without a result (its own, shorter timeout).
  void end_wait(uint64_t id);
  void complete(uint64_t id, bool failed = false);

  /// The optimizer step that operations are recorded under from now on.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  int64_t step() const { return step_.load(std::memory_order_relaxed); }

  /// What this rank works at, in words, asked of `activity` from now on by whichever thread wants to
  /// know; empty words, or none to ask: nothing that others wait for.
  void set_activity(std::function<std::string()> activity);
  std::string activity() const;

  Standing standing() const;
  std::vector<ChainMark> marks() const;  ///< by count, rising
  /// Operations that are still in the ring, from id `from` on, oldest first.
  std::vector<OpRecord> since(uint64_t from) const;
  /// The newest `limit` collectives in the ring, oldest first.
  std::vector<OpRecord> last_collectives(size_t limit) const;
  /// A high quantile (99 %) of how long lately completed collectives took; 0 without any.
  int64_t usual_ns() const;
  size_t capacity() const { return ring_.size(); }

 private:
  OpRecord* find(uint64_t id);

  const std::function<int64_t()> clock_;
  mutable std::mutex mutex_;
  std::vector<OpRecord> ring_;  // operation id at id % size
  std::atomic<int64_t> step_{-1};
  uint64_t next_id_ = 0;
  uint64_t posted_ = 0;
  uint64_t chain_ = 0;
  std::vector<ChainMark> marks_;  // [j]: at the largest multiple of 2^j
  uint64_t chain_before_ = 0;     // the last collective, for take_back
  std::vector<ChainMark> marks_before_;
  std::vector<uint64_t> waits_;  // ids
  int64_t last_ns_ = 0;
  std::optional<uint64_t> first_failed_;  // collective
  mutable std::mutex activity_mutex_;
  std::function<std::string()> activity_;  // under it
};

/// One operation as an object of the flight record (docs/when-a-rank-fails.md).
Json to_json(const OpRecord& record);

}  // namespace muster::diagnose
