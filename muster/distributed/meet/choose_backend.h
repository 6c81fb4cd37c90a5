// How `auto` comes to the same backend on all ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <c10/core/DeviceType.h>

#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

/// What this rank can use of `entries`, and what all ranks can, by rank. Collective.
std::vector<RankOffer> exchange_offers(const BackendRequest& request,
                                       const std::vector<const BackendEntry*>& entries);

/// Backends that `auto` may take, the most preferred first.
std::vector<const BackendEntry*> by_preference();

/// The backend for tensors of one kind of device.
struct Member {
  at::DeviceType kind = at::kCPU;
  const BackendEntry* entry = nullptr;  ///< null: `auto` finds one
};

/// What `text` names: "gloo" for whatever it moves, or "cpu:gloo,cuda:nccl" for each kind, as
/// PyTorch has it; "cpu:auto" for the best one, and none for other kinds. Throws a usage error.
std::vector<Member> named_members(const std::string& text);

/// That a backend which was asked for cannot be used, and why.
Error unusable(const BackendEntry& entry, const std::string& why);

bool moves(const BackendEntry& entry, at::DeviceType kind);

/// The CPU, CUDA, and what accelerators of other kinds this process has, as far as it moves them.
std::vector<at::DeviceType> kinds_of(const BackendEntry& entry);

/// The first of `entries` that moves tensors of this kind and suits these ranks, but for those that
/// did not after all; null if none does. `reason` grows by why not those before it: "; not nccl: …".
const BackendEntry* choose(const std::vector<const BackendEntry*>& entries,
                           at::DeviceType kind,
                           const std::vector<RankOffer>& ranks,
                           const std::map<const BackendEntry*, std::string>& unfit,
                           std::string& reason);

/// Empty if each rank by itself can use it, else why one cannot. The same on every rank.
std::string why_refused(const BackendEntry& entry, const std::vector<RankOffer>& ranks);

/// Empty if the backend also suits these ranks. The same on every rank.
std::string why_not(const BackendEntry& entry, const std::vector<RankOffer>& ranks);

}  // namespace muster::distributed
