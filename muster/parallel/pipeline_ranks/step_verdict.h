// What the ranks of a step tell each other at its two ends.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::parallel {

/// Why a rank cannot go on.
struct RankFailure {
  std::exception_ptr error;
  bool let_down = false;  ///< it only waited for somebody who failed
  double time = 0;        ///< seconds since the epoch
};

/// The failure in hand, now. Inside a handler.
RankFailure failure_now(bool let_down = false);

/// Collective over `group`: each rank's words, by rank // [world_size][words]. Where one or several
/// have failed, all throw: they their own error, unless they were let down; the others a
/// PeerFailure that names the first in time of those that were not, and what it said.
std::vector<std::vector<int64_t>> agree(const distributed::ProcessGroup& group,
                                        const std::string& what,
                                        const std::vector<int64_t>& words,
                                        const std::optional<RankFailure>& failure);

}  // namespace muster::parallel
