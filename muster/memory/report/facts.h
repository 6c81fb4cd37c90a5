// What is known of a failed allocation. No LibTorch here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/memory/allocator/block.h"
#include "muster/memory/tracker/iteration_end.h"

namespace muster::memory {

// Note [Bytes of a failure]
// A device's memory is told apart so, in the words of CUDA's allocator:
//
//   total = other processes + this process + what the device has free
//   this process = live (in tensors) + idle (the allocator's, in no tensor) + outside (context,
//                  libraries, the heap)
//   idle = pending (waits for a stream) + blocks of private pools (CUDA graphs) + the rest
//   cap: the most that the allocator may have, of the device or less; free: what was left of that
//   beyond: what the device had free besides, and the cap kept back
//
// What is missing is asked - free. Where nobody tells a number it is nothing, never 0.

/// Who says how much there may be.
enum class CapKind : uint8_t {
  kUnknown,
  kDevice,     ///< the device, or the machine
  kFraction,   ///< the share of a device that this process may have
  kCapacity,   ///< a capacity that the program set
  kGroup,      ///< the control group of a container or a batch job
  kAddresses,  ///< the limit of this process's addresses: ulimit -v
};

/// Blocks of one maker.
struct Holder {
  std::string scope;  ///< "" outside of scopes
  std::string op;     ///< "": not recorded
  std::string layer;  ///< "": none, or not recorded
  Owner owner = Owner::kOther;
  int64_t bytes = 0;
  int64_t blocks = 0;
  bool operator==(const Holder&) const = default;
};

struct OtherProcess {
  int64_t pid = 0;
  std::string command;  ///< "": cannot be told (another container's)
  std::string user;
  int64_t bytes = 0;
  bool operator==(const OtherProcess&) const = default;
};

struct OomFacts {
  std::string device;       ///< "cuda:0", "cpu"
  int rank = -1;            ///< -1: no rank
  std::string words;        ///< of the error, its first line
  bool at_failure = false;  ///< counters and holders are of the failure; else of when it was caught
  bool was_to_fail = false;  ///< a test had asked for the failure
  std::optional<int64_t> asked, free, cap, total, beyond;
  CapKind cap_kind = CapKind::kUnknown;
  std::optional<int64_t> live, idle, pending, in_pools, largest_idle, outside;
  bool by_owner = false;                  ///< `owners` says something
  std::array<int64_t, kOwners> owners{};  ///< bytes of `live`; what nobody knows is kOther's
  int64_t of_backward = 0;  ///< of kGradient, what is no parameter's: gradients of activations
  /// kOther has activations, too: who made a block was not recorded.
  bool rest_is_mixed = false;
  std::vector<Holder> holders;           ///< most bytes first
  std::optional<int64_t> others;         ///< bytes of other processes
  std::vector<OtherProcess> processes;   ///< of them, most bytes first
  std::vector<IterationEnd> iterations;  ///< oldest first

  /// Bytes by which the request did not fit; nothing where a number lacks.
  std::optional<int64_t> missing() const;
  /// Of what the allocator holds idle, the share that the largest block is not: 0 is one block, near
  /// 1 are crumbs. Nothing where the allocator does not tell, or nothing is idle.
  std::optional<double> fragmentation() const;
};

}  // namespace muster::memory
