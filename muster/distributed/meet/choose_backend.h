// How `auto` comes to the same backend on all ranks.
#pragma once

#include <string>
#include <vector>

#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

/// What this rank can use, and what all ranks can, by rank. Collective.
std::vector<RankOffer> exchange_offers(const BackendRequest& request);

/// Backends that `auto` may take, the most preferred first.
std::vector<const BackendEntry*> by_preference();

/// Empty if the backend suits these ranks. The same on every rank.
std::string why_not(const BackendEntry& entry, const std::vector<RankOffer>& ranks);

}  // namespace muster::distributed
