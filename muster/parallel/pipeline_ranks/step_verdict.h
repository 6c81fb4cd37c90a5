// What the ranks of a step tell each other at its two ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::parallel {

/// Why a rank cannot go on.
struct RankFailure {
  std::exception_ptr error;
  bool let_down = false;  ///< it only waited for somebody who failed
  double time = 0;        ///< seconds since the epoch
};

/// The failure in hand, now. Inside a handler.
RankFailure failure_now(bool let_down = false);

/// What a rank did longer than others wait; whether one of them did is for all to find out.
struct RankStall {
  std::string text;
  double seconds = 0;
};

/// The longest action of a rank's step, if it took longer than others wait for a message; none
/// where they wait as long as the group does, whose timeout ends more than a step.
std::optional<RankStall> stall_in(std::span<const pipeline::Span> spans,
                                  std::chrono::milliseconds timeout);

/// Collective over `group`: each rank's words, by rank // [world_size][words]. Where one or several
/// have failed, all throw: they their own error, unless they were let down; the others a
/// PeerFailure that names the cause, and what it said. That is the first in time of those that were
/// not let down; if all were, the rank that stalled longest; if none did, the first in time. A rank
/// that does not come within `timeout` (0: the group's) is the group's error.
std::vector<std::vector<int64_t>> agree(const distributed::ProcessGroup& group,
                                        const std::string& what,
                                        const std::vector<int64_t>& words,
                                        const std::optional<RankFailure>& failure,
                                        const std::optional<RankStall>& stall = {},
                                        std::chrono::milliseconds timeout = {});

}  // namespace muster::parallel
