// What a join says where ranks were to end together. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

/// Throws a usage error that names the ranks which have ended (JoinOptions::throw_on_early_termination).
[[noreturn]] inline void refuse_uneven(const std::vector<int>& ended) {
  std::vector<std::string> ranks;
  for (const int rank : ended) ranks.push_back(std::to_string(rank));
  throw usage_error({.refused = concat("rank ", muster::join(ranks, ", "), " has no more batches"),
                     .rule = "all ranks end together (throw_on_early_termination)"});
}

}  // namespace muster::parallel
