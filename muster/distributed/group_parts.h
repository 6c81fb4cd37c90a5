// A group in the making, for init_process_group and ThreadWorld.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/distributed/call/staged_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/process_group.h"

namespace muster::distributed {

struct ProcessGroup::State {
  // Declared first: destroyed last, after the group that may still use it.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string backend, reason;
  at::Device device = at::kCPU;
};

/// A group in the making: a backend for each kind of device. The last that is added is the one that
/// the group is called after.
class GroupParts {
 public:
  GroupParts(const BackendRequest& request, const MonitorOptions& monitor, int server_rank)
      : request_(request),
        monitor_(monitor),
        server_rank_(server_rank),
        state_(std::make_shared<ProcessGroup::State>()) {
    state_->store = request.store;
    state_->group =
        c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  }

  /// Collective. `name`: what tells it apart from other members; empty where it is alone.
  void add(const BackendEntry& entry,
           const std::vector<at::DeviceType>& kinds,
           const std::string& name = "") {
    BackendRequest request = request_;
    MonitorOptions monitor = monitor_;
    if (!name.empty()) {
      request.store = c10::make_intrusive<c10d::PrefixStore>(name, request_.store);
      monitor.group += "-" + name;
    }
    const auto backend = monitored_one(entry.make(request), request, monitor);
    for (const at::DeviceType kind : kinds) state_->group->setBackend(kind, entry.type, backend);
    state_->group->setDefaultBackend(entry.type);
    state_->backend = std::string(entry.name);
    state_->device = kinds[0] == at::kCPU
                         ? at::Device(at::kCPU)
                         : at::Device(kinds[0], static_cast<at::DeviceIndex>(request.local_rank));
  }

  /// Collective. Tensors of a kind that no backend of the group moves, by host memory over one more
  /// of the CPU's backends; the group is called after the others.
  void stage(const BackendEntry& entry, at::DeviceType kind, const std::string& name) {
    BackendRequest request = request_;
    MonitorOptions monitor = monitor_;
    request.store = c10::make_intrusive<c10d::PrefixStore>(name, request_.store);
    monitor.group += "-" + name;
    const auto backend = monitored_one(
        c10::make_intrusive<StagedBackend>(entry.make(request), request.timeout), request, monitor);
    // c10d keeps one backend of each type: one that no other of the group has.
    state_->group->setBackend(kind, c10d::ProcessGroup::BackendType::MPI, backend);
    staged_ = concat("; tensors of ", name, " by host memory");
  }

  ProcessGroup group(const std::string& reason) const {
    state_->reason = reason + staged_;
    return ProcessGroup(state_);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> monitored_one(c10::intrusive_ptr<c10d::Backend> backend,
                                                  const BackendRequest& request,
                                                  const MonitorOptions& monitor) const {
    return monitored(std::move(backend),
                     {.store = request.store,
                      .rank = request.rank,
                      .world_size = request.world_size,
                      .timeout = request.timeout,
                      .server_rank = server_rank_,
                      .threads = request.exchange != nullptr},
                     monitor);
  }

  const BackendRequest& request_;
  const MonitorOptions& monitor_;
  const int server_rank_;
  const std::shared_ptr<ProcessGroup::State> state_;
  std::string staged_;
};

}  // namespace muster::distributed
