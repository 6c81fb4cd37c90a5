// The steps in which the ranks of a segment go through collectives together.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/shm/shm_segment.h"

namespace muster::distributed {

// Note [Steps]
// A collective is one step or several, and each step is one barrier: every rank writes what others
// need into its slot, `turn` waits until all have, and then all read. The slots are two, taken in
// turn. Nobody writes into a slot that is still read: who comes to step s + 1 has read all of step
// s, and who writes for step s + 2 has seen all come to s + 1. So one barrier per step is enough,
// and none is needed after the last.
//
// The first step of an operation carries its OpSignature too. All ranks compare all of them after
// the barrier, and where they differ all refuse the operation with the same words, at the same
// step: the group stays usable.
//
// The barrier is one counter for arrivals and one word, the epoch, that the last to arrive moves on
// and wakes sleepers by: a rank sleeps and wakes once per step, however many ranks there are. A
// waiting rank spins for a while if every rank has a core, then sleeps in slices, between which it
// looks whether the ranks it waits for are alive. A rank that fails leaves its reason in its block,
// and the others fail at once with it; so does the next operation of whoever comes late. Sequence
// numbers, states and reasons are all that an error needs to name the culprit.

/// One rank's side. All members but `missing` and `end` from one thread at a time.
class ShmSteps {
 public:
  /// `names[r]` is what rank r is called in errors. Marks this rank as in.
  ShmSteps(std::shared_ptr<ShmSegment> segment, int rank, std::vector<int> names);

  const ShmSegment& segment() const { return *segment_; }
  int rank() const { return rank_; }
  int world_size() const { return segment_->world_size(); }
  /// How long a waiting thread may spin; 0 if there are more ranks than cores.
  std::chrono::nanoseconds spin() const { return spin_; }
  /// What rank `rank` of this segment is called in errors.
  int name(int rank) const { return names_[static_cast<size_t>(rank)]; }

  /// Begins an operation: the next turn carries its signature. Throws if the group has failed.
  void begin(const OpSignature& signature, std::chrono::milliseconds timeout);

  /// What rank `rank` writes before the turn.
  std::byte* slot_to_write(int rank) const { return segment_->slot(rank, (step_ + 1) & 1); }
  int64_t* table_to_write() const { return segment_->table(rank_, (step_ + 1) & 1); }

  /// What was written before the last turn.
  const std::byte* slot(int rank) const { return segment_->slot(rank, step_ & 1); }
  /// The same, for whoever writes its answer over it.
  std::byte* slot_in_use(int rank) const { return segment_->slot(rank, step_ & 1); }
  const int64_t* table(int rank) const { return segment_->table(rank, step_ & 1); }

  /// Waits until all ranks came. The first turn of an operation throws a usage error on all ranks
  /// if they disagree. Throws an environment error that names ranks that died, failed, ended or did
  /// not come in time; afterwards the group has failed.
  void turn();

  /// "rank 1 did not come, rank 0 waited", or nothing. Any thread.
  std::string missing() const;

  /// This rank is done with the group, because of `failure` or in peace. Wakes its waiting thread,
  /// which throws. Any thread; only the first call counts.
  void end(const std::string& failure = "");
  /// As LastWord.
  void will_end_with(const std::string& why);
  std::optional<std::string> last_word(int other) const;

  /// Whether rank `other` can still be waited for; if not, why, in words. Any thread.
  std::string departure(int other) const;
  /// The same, for whoever waits for a message of it: who has ended may still have some to give.
  std::string sender_departure(int other) const;
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  void wait_for_all(uint32_t step);
  void compare_signatures() const;
  std::vector<int> culprits(uint32_t step) const;
  bool has_come(int other, uint32_t step) const;
  [[noreturn]] void give_up(uint32_t step, const std::vector<int>& gone);
  [[noreturn]] void give_up(uint32_t step,
                            const std::string& reason,
                            const std::vector<int>& gone = {});
  std::string missing_at(uint32_t step, const std::vector<int>& gone) const;

  std::shared_ptr<ShmSegment> segment_;
  const int rank_;
  std::vector<int> names_;
  std::vector<PeerProcess> peers_;
  const std::chrono::nanoseconds spin_;
  std::chrono::nanoseconds spin_now_;
  uint32_t step_ = 0;  // turns done
  bool first_turn_ = false;
  OpSignature signature_;
  std::chrono::milliseconds timeout_{};
  mutable std::mutex end_mutex_;
  std::atomic<bool> ended_{false};
  std::string failure_;                   // why ended_, if not in peace; under end_mutex_
  std::optional<std::string> last_word_;  // of this rank, as it will be; under end_mutex_
};

}  // namespace muster::distributed
