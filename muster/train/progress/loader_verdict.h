// Whether a training waited for its data, and what may be done about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/data/loader/loader.h"

namespace muster::train {

/// Where ranks load.
struct LoaderPlace {
  int64_t workers = 0;      ///< of each rank
  int64_t cores = 1;        ///< of this machine
  int64_t local_ranks = 1;  ///< on them
};

/// The rank that waited for the largest share. Of one at least. Pure.
size_t longest_wait(const std::vector<data::LoaderStats>& ranks);

/// "loader-bound: …", of the rank that waited for the largest share, since steps wait for each other;
/// "" where no rank waited for a tenth of its time and for a second in all. `ranks` by rank, of all
/// epochs of this process; `place` is that rank's. Pure.
std::string loader_verdict(const std::vector<data::LoaderStats>& ranks, const LoaderPlace& place);

}  // namespace muster::train
