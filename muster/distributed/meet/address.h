// Where the store of a job is, and whether somebody is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/file.h"
#include "muster/base/rank_env.h"

namespace muster::distributed {

/// A socket for the server that only this machine reaches; none where others may mean it, or where
/// it cannot be bound: LibTorch then says why. See Note [Where the store listens].
UniqueFd loopback_socket(const RankEnv& env);

/// True once something listens at host:port, false at the deadline, or when nobody will: `is_over`.
/// TCPStore's own client sleeps a whole second after a refused connection, which would be most of a
/// rank's start-up whenever rank 0 is a few milliseconds later than the rest.
bool wait_for_listener(
    const std::string& host,
    int64_t port,
    std::chrono::steady_clock::time_point deadline,
    const std::function<bool()>& is_over = [] { return false; });

/// The address of this machine from which `remote` is reached: "127.0.0.1" for a local one. No
/// packet is sent. Throws an environment error if `remote` cannot be resolved or reached by any
/// interface.
std::string address_towards(const std::string& remote);

}  // namespace muster::distributed
