// Ways to move tensors between ranks. One file of backends/ adds one; see Note [Generated tables].
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/entry.h"

namespace muster::parallel {

class ThreadBoard;

/// What a backend is made from. Every rank of the group makes one, with the same store and world
/// size.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< where the ranks meet; already prefixed for this group
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< the device of this rank, where the backend drives devices
  std::chrono::milliseconds timeout{};  ///< of every operation
  std::string host;                     ///< address of this process that its peers can reach
  std::shared_ptr<ThreadBoard>
      board;  ///< for `thread`: the board of the one process; null otherwise
};

struct BackendEntry {
  static constexpr std::string_view kKind = "backend";
  std::string_view name;
  std::string_view help;
  /// `auto` takes the available backend of the highest preference; below 0 is never taken by
  /// itself.
  int preference;
  c10d::ProcessGroup::BackendType type;
  /// Empty if it can be used on this machine now, else the reason why not, in words. Any thread.
  std::string (*available)();
  /// Collective: returns once all ranks of the group are connected. Throws an environment error.
  c10::intrusive_ptr<c10d::Backend> (*make)(const BackendRequest& request);
  /// Kinds of tensors that it moves.
  bool moves_cpu;
  bool moves_cuda;
};

/// All process-group backends (generated).
EntryTable<BackendEntry> backends();

}  // namespace muster::parallel
