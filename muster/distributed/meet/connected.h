// The end of connecting: nobody leaves while another still connects to it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/error.h"
#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

// Note [All connected]
// A rank whose own connections stand has its group, may find nothing to do with it, and end: whoever
// was about to answer it finds a closed connection and takes that for a crash. So backends that
// connect ranks to each other meet once more behind that, in the group's store: two round trips a
// rank. Rank 0, which may serve the store, also waits, for kHeardMs at most, until the others have
// heard. A rank that could not connect says why, and the others end with its words.

constexpr int kHeardMs = 2000;

/// This rank begins to connect, from this address or interface. Throws as the store does.
void begin_connecting(c10d::Store& store, int rank, const std::string& where);

/// Who has not begun to connect, and where those are that have, for a rank that could not: "rank 2 has not
/// begun to connect; rank 1 is at 10.0.0.2". `names`: as BackendRequest has them. Empty if the store is
/// lost; never throws, and waits for nobody.
std::string connecting_peers(c10d::Store& store,
                             int rank,
                             int world_size,
                             std::span<const int> names = {});

/// Collective, behind a rank's own connecting. Returns once all ranks have called it. Throws an
/// environment error that names the first that called cannot_connect() instead, or if not all have
/// come within the store's timeout, or if the store is lost.
void await_all_connected(c10d::Store& store, int rank, int world_size);

/// This rank tells the others why it has no connections. Returns what another had told before, if
/// any had ("rank 1: …"), else nothing; never throws.
std::string cannot_connect(c10d::Store& store, int rank, const std::string& why);

/// The environment error of a rank that could not, `where` it is; tells the others `why`, and says what
/// they have told, who has not begun and where those are that have.
Error connection_error(const BackendRequest& request,
                       std::string_view backend,
                       const std::string& where,
                       std::string why);

}  // namespace muster::distributed
