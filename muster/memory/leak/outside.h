// What grows outside of the CPU's tensors, over the last iterations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "muster/memory/allocator/process_bytes.h"
#include "muster/memory/allocator/scope_meter.h"
#include "muster/memory/leak/series.h"
#include "muster/memory/tracker/tracker.h"

namespace muster::memory {

/// Filled at each end, by the thread that ends iterations.
class Outside {
 public:
  Outside() = default;
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  Series heap;      ///< IterationMemory::other_heap_bytes
  Series code;      ///< made_code_bytes(), see looks_for_code()
  Series resident;  ///< of the process, without what its heap has in use; empty: not told
  Series mapped;    ///< addresses, without those of its heap; empty: not told
  // Of the device that the module's first parameter off the CPU is on; empty where it does not count:
  std::optional<c10::Device> device;
  Series waiting;                      ///< waiting_bytes()
  Series device_bytes, device_blocks;  ///< live ones
  Series pinned;                       ///< held_pinned_bytes()

  /// `parameters`: the module's. `suspicious`: bytes per iteration that are worth a scope meter.
  void add(const IterationMemory& memory,
           std::span<const at::Tensor> parameters,
           size_t window,
           double suspicious);

  /// The scope in which a gauge changes by about so much per iteration; 0: none.
  uint32_t scope_of(Gauge gauge, double bytes_per_iteration) const;

 private:
  bool looks_for_code(const ProcessBytes& process, double suspicious) const;
  void add_code(const ProcessBytes& process, size_t window, double suspicious);
  void add_process(const IterationMemory& memory, const ProcessBytes& process, size_t window);
  void add_device(std::span<const at::Tensor> parameters, size_t window);
  void meter(double suspicious);

  // Of when code was looked for last, ProcessBytes::mapped; and the least heap since.
  int64_t mapped_with_code_ = 0, least_heap_ = 0;
  bool metered_ = false;
  int64_t metered_ends_ = 0;
  ScopeChanges changes_;  // since the meter began
};

}  // namespace muster::memory
