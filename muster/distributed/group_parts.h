// A group in the making, for init_process_group and ThreadWorld.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/distributed/call/staged_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/process_group.h"

namespace muster::distributed {

/// One of the backends that a group has.
struct GroupPart {
  const BackendEntry* entry;
  std::vector<at::DeviceType> kinds;
  std::string name;     ///< what tells it apart from other parts; empty where it is alone
  bool staged = false;  ///< for tensors of a kind that it does not move, by host memory
};

struct ProcessGroup::State {
  // Declared first: destroyed last, after the group that may still use it.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  const BackendEntry* entry = nullptr;
  std::string backend, reason;
  at::Device device = at::kCPU;
  // What groups that are made from it are made of.
  BackendRequest made_from;
  MonitorOptions monitor;
  int server_rank = -1;  ///< its rank in the first of all groups
  std::vector<GroupPart> parts;
  std::vector<int> world_ranks;  ///< by rank, of a group that was made from another; else empty
  std::string path;              ///< of its keys in the first group's store
  int splits = 0;                ///< that were asked for
};

/// A group in the making: a backend for each kind of device. The last that is added is the one that
/// the group is called after.
class GroupParts {
 public:
  GroupParts(const BackendRequest& request, const MonitorOptions& monitor, int server_rank)
      : state_(std::make_shared<ProcessGroup::State>()) {
    state_->made_from = request;
    state_->monitor = monitor;
    state_->server_rank = server_rank;
    make_group();
  }

  /// Of a group of `members`, ranks of `parent`, which it shares threads with; `request` is for it.
  GroupParts(const BackendRequest& request,
             const ProcessGroup::State& parent,
             const std::vector<int>& members,
             const std::string& path,
             const std::string& name)
      : parent_(&parent), state_(std::make_shared<ProcessGroup::State>()) {
    state_->made_from = request;
    state_->monitor = parent.monitor;
    state_->monitor.group = name;
    // The parent's strike here, too, as ranks of the first group have them.
    state_->monitor.faults.clear();
    state_->server_rank = parent.server_rank;
    state_->path = parent.path + path + "/";
    for (const int rank : members)
      state_->world_ranks.push_back(
          parent.world_ranks.empty() ? rank : parent.world_ranks[static_cast<size_t>(rank)]);
    make_group();
  }

  /// Collective. `name`: what tells it apart from other members; empty where it is alone.
  void add(const BackendEntry& entry,
           const std::vector<at::DeviceType>& kinds,
           const std::string& name = "") {
    BackendRequest request = state_->made_from;
    MonitorOptions monitor = state_->monitor;
    if (!name.empty()) {
      request.store = c10::make_intrusive<c10d::PrefixStore>(name, request.store);
      monitor.group += "-" + name;
    }
    const auto backend = monitored_one(entry.make(request), request, monitor, kinds[0]);
    state_->parts.push_back({&entry, kinds, name});
    // Given on by setBackend: with it nccl makes its communicator for that device, and guesses none for
    // a barrier.
    if (!entry.moves_cpu)
      state_->group->setBoundDeviceId(
          at::Device(kinds[0], static_cast<at::DeviceIndex>(request.local_rank)));
    for (const at::DeviceType kind : kinds) state_->group->setBackend(kind, entry.type, backend);
    state_->group->setDefaultBackend(entry.type);
    state_->entry = &entry;
    state_->backend = std::string(entry.name);
    state_->device = kinds[0] == at::kCPU
                         ? at::Device(at::kCPU)
                         : at::Device(kinds[0], static_cast<at::DeviceIndex>(request.local_rank));
  }

  /// Collective. Tensors of a kind that no backend of the group moves, by host memory over one more
  /// of the CPU's backends; the group is called after the others.
  void stage(const BackendEntry& entry, at::DeviceType kind, const std::string& name) {
    BackendRequest request = state_->made_from;
    MonitorOptions monitor = state_->monitor;
    request.store = c10::make_intrusive<c10d::PrefixStore>(name, request.store);
    monitor.group += "-" + name;
    const auto backend =
        monitored_one(c10::make_intrusive<StagedBackend>(entry.make(request), request.timeout),
                      request,
                      monitor,
                      kind);
    state_->parts.push_back({&entry, {kind}, name, /*staged=*/true});
    // c10d keeps one backend of each type: one that no other of the group has.
    state_->group->setBackend(kind, c10d::ProcessGroup::BackendType::MPI, backend);
    staged_ = concat("; tensors of ", name, " by host memory");
  }

  ProcessGroup group(const std::string& reason) const {
    state_->reason = reason + staged_;
    return ProcessGroup(state_);
  }

 private:
  void make_group() {
    const BackendRequest& request = state_->made_from;
    state_->store = request.store;
    state_->group =
        c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  }

  c10::intrusive_ptr<c10d::Backend> monitored_one(c10::intrusive_ptr<c10d::Backend> backend,
                                                  const BackendRequest& request,
                                                  const MonitorOptions& monitor,
                                                  at::DeviceType kind) const {
    MonitorRequest watched{.store = request.store,
                           .rank = request.rank,
                           .world_size = request.world_size,
                           .timeout = request.timeout,
                           .server_rank = state_->server_rank,
                           .threads = request.exchange != nullptr};
    if (parent_ != nullptr) {
      const std::vector<int>& ranks = state_->world_ranks;
      const auto server = std::ranges::find(ranks, state_->server_rank);
      watched.server_outside = state_->server_rank >= 0 && server == ranks.end();
      watched.server_rank = server == ranks.end() ? -1 : static_cast<int>(server - ranks.begin());
      watched.parent = parent_->group->getBackend(kind).get();
      watched.path = state_->path;
      watched.world_ranks = ranks;
    }
    return monitored(std::move(backend), watched, monitor);
  }

  const ProcessGroup::State* const parent_ = nullptr;
  const std::shared_ptr<ProcessGroup::State> state_;
  std::string staged_;
};

}  // namespace muster::distributed
