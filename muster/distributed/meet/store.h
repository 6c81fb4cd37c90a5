// Where the processes of a job meet: c10d's TCPStore at MASTER_ADDR:MASTER_PORT.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/rank_env.h"

namespace muster::distributed {

/// Connects this rank. Rank 0 serves, unless the launcher does (torchrun's agent store); the rest
/// wait for the server. Keys are prefixed with run id and restart count, so a restarted job on the
/// same store starts clean. Throws: environment error if the port is in use or nothing answers
/// within `timeout`; usage error if another process has already claimed this rank.
c10::intrusive_ptr<c10d::Store> connect_store(const RankEnv& env,
                                              std::chrono::milliseconds timeout);

/// The address of this machine from which `remote` is reached: "127.0.0.1" for a local one. No
/// packet is sent. Throws an environment error if `remote` cannot be resolved or reached by any
/// interface.
std::string address_towards(const std::string& remote);

}  // namespace muster::distributed
