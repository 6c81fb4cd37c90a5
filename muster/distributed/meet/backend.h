// Ways to move tensors between ranks. One file of backends/ adds one; see Note [Generated tables].
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/entry.h"
#include "muster/base/error.h"

namespace muster::distributed {

class ThreadExchange;

/// Thrown by `make`, by all ranks of the group alike, if the backend does not suit them: `auto`
/// then takes the next one.
class BackendUnfit : public Error {
 public:
  explicit BackendUnfit(const std::string& why);
};

/// What a backend is made from. Every rank of the group makes one, with the same store and world
/// size.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< where the ranks meet; already prefixed for this group
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< the device of this rank, where the backend drives devices
  std::chrono::milliseconds timeout{};  ///< of every operation
  std::string host;                     ///< address of this process that its peers can reach
  /// If the ranks are threads of this process, what they share; null otherwise.
  std::shared_ptr<ThreadExchange> exchange;
  /// Equal for ranks of one host; empty: host_identity(). Tests may pretend hosts.
  std::string host_identity;
  /// What the ranks are called in errors; empty: 0, 1, …
  std::vector<int> names;
  std::string device;  ///< where this rank's model is: "cuda:0"; empty: not said
};

/// What a rank tells the others before a backend is chosen.
struct RankOffer {
  std::string host_identity;
  /// By backend name: why this rank cannot use it.
  std::map<std::string, std::string> refusals;
  std::string device;  ///< where its model is: "cuda:0"; empty: not said
};

/// Made by names (`.name = "gloo", …`), so that no value slides into the next field.
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
  /// Collective: returns once all ranks of the group are connected. Throws an environment error,
  /// BackendUnfit where all ranks throw it.
  c10::intrusive_ptr<c10d::Backend> (*make)(const BackendRequest& request);
  /// Kinds of tensors that it moves.
  bool moves_cpu;
  bool moves_cuda;
  /// Why it does not suit these ranks, by rank, though each could use it; empty if it does, or it
  /// may be null: it suits all. A pure function, so that all ranks answer alike.
  std::string (*unsuitable)(const std::vector<RankOffer>& ranks) = nullptr;
  /// What is special about this rank, as in `available`; may be null.
  std::string (*refuses)(const BackendRequest& request) = nullptr;
  /// An all-reduce works where the tensors lie, in the order of ranks, and many cost no more than
  /// one over all: gradients need not be packed into buckets.
  bool needs_no_buckets = false;
  /// It compares the ranks' calls itself and names who is missing, as Muster's own do: the monitor
  /// (monitor.h) then leaves that to it, and its errors fail one operation, not the group.
  bool names_culprits = false;
  /// Its own threads complete its works' futures, and nothing interrupts a thread in its wait: the
  /// monitor then waits for the future, which it can fail first.
  bool completes_futures = false;
  /// It moves tensors of whatever accelerator this process has, besides what `moves_cuda` says.
  bool moves_any_device = false;
  /// Its ranks are threads of one process: processes that a launcher started are refused by `make`,
  /// before they wait for each other.
  bool for_threads_only = false;
  /// What is sent stays with the sender until the receiver takes it, and nothing that the sender
  /// posts later overtakes it. Else messages are held for receivers that come later.
  bool sends_wait = false;
};

/// All process-group backends (generated).
EntryTable<BackendEntry> backends();

/// What is to move tensors of this kind between processes if `asked` (auto, or a name) is asked for,
/// in words, as far as one rank alone can tell.
std::string backend_outlook(const std::string& asked, at::DeviceType kind);

}  // namespace muster::distributed
