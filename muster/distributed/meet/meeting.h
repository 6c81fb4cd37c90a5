// How the ranks of a job find out that they are one job, before they depend on each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/distributed/meet/job_card.h"

namespace muster::distributed {

// Note [Meeting]
// Each machine has a launcher of its own, and what one of them was told may not be what another
// was: another run id, another number of ranks or machines, another program, another address that
// happens to be taken. Ranks that look for each other under names made of these would wait for each
// other until the timeout. So they first meet under a name that holds nothing of the kind (but
// where one launcher told all of them: store.cpp): the first one lays its card down, each compares
// its own with it, the last one opens the meeting. Who differs closes it instead, with words that
// hold both values; so does who has waited for too long. All ranks that have come, and those that
// come later, end with these words. All wait for one key, so nobody polls.
//
// How often a job was started again is not compared: launchers count that each for itself, and
// torchrun's count what failed on their own machine, so that ranks of one attempt may hold different
// numbers. The store tells attempts apart. Where rank 0 serves it, it begins with the attempt. One
// that the launchers serve lasts as long as the job, and holds what ranks of an earlier attempt left
// there. So a meeting has rounds: who finds one that is over, or cannot be its own (its rank is there
// already, its job has another size), begins the next, once, and whoever waits in the old one
// follows; and since one of those who came to it may have died in an earlier attempt, all who are
// alive say so once more before it counts as open. Two processes that were given one rank both
// follow, and meet there.

/// What the ranks of this program call it when they compare: MUSTER_PROGRAM, for jobs of different
/// programs that mean to meet, else `own`, else the name under which it was started.
std::string program_name(const std::string& own = "");

/// Who serves the store of a meeting.
enum class StoreServer {
  kThisProcess,  ///< it stays until the others have heard of a failure
  kRankZero,     ///< another process of the job
  kLauncher      ///< it outlives the ranks: Note [Meeting], on rounds
};

/// Whether the process of a rank is known to have ended; null where nothing is ever known.
using HasEnded = std::function<bool(int64_t rank)>;

/// Who hears, once, for whom or what this rank waits, when that takes long: a line of text, on the thread
/// that waits.
struct Waiting {
  std::function<void(const std::string& text)> say;  ///< nobody, if it is null
  std::chrono::milliseconds after = std::chrono::seconds(10);
};

/// Collective: returns once all ranks have come, with cards that fit, each of them once; the round in
/// which they have. `store` is for this meeting alone. Throws a usage error on all ranks that have
/// come if a card does not fit or a rank was started twice; an environment error that names who is
/// missing after `timeout`, also on those who come after that, or if the store is lost; or, within a
/// second, one that has not come and `has_ended`, if some launcher of a rank that waits says so.
int64_t meet(c10d::Store& store,
             int64_t rank,
             int64_t world_size,
             const JobCard& card,
             std::chrono::milliseconds timeout,
             StoreServer server,
             const HasEnded& has_ended = nullptr,
             const Waiting& waiting = {});

}  // namespace muster::distributed
