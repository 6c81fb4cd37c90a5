// How the ranks of a job find out that they are one job, before they depend on each other.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/rank_env.h"

namespace muster::distributed {

// Note [Meeting]
// Each machine has a launcher of its own, and what one of them was told may not be what another
// was: another run id, another number of ranks or machines, another program, another address that
// happens to be taken. Ranks that look for each other under names made of these would wait for each
// other until the timeout. So they first meet under a name that holds nothing of the kind: the
// first one lays its card down, each compares its own with it, the last one opens the meeting. Who
// differs closes it instead, with words that hold both values, and all ranks that have come, and
// those that come later, end with these words. All wait for one key, so nobody polls.

/// What one rank was told of its job.
struct JobCard {
  std::string who;  ///< "rank 2 (process 4711 on host7)"
  /// What must be equal on all ranks that were told, as name and value: {"the run id", "a1"}.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// `program`: what it is called, without its folder. `key`: something that tells keys apart and does
/// not give them away; empty without one.
JobCard job_card(const RankEnv& env, const std::string& program, const std::string& key);

/// Empty if the two are cards of one job, else their differences, with both values.
std::string difference(const JobCard& first, const JobCard& other);

/// What the ranks of this program call it when they compare: MUSTER_PROGRAM, for jobs of different
/// programs that mean to meet, else the name under which it was started.
std::string program_name();

/// Collective: returns once all ranks have come, with cards that fit, each of them once. `store` is
/// for this meeting alone. Throws a usage error on all ranks that have come if a card does not fit
/// or a rank was started twice; an environment error that names who is missing after `timeout`, or
/// if the store is lost. `serves`: this process serves the store, so that it stays until the others
/// have heard of a failure.
void meet(c10d::Store& store,
          int64_t rank,
          int64_t world_size,
          const JobCard& card,
          std::chrono::milliseconds timeout,
          bool serves);

}  // namespace muster::distributed
