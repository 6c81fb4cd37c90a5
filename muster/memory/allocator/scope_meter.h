// In which scopes memory grows that is no tagged block's. Private to the room.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

namespace muster::memory {

// Note [Scope meter]
// A block of the CPU says by itself who made it. The C library's heap, what is mapped past it, pinned
// memory and the bytes of a device are totals; so while a meter runs they are read wherever a scope of the metered thread begins or ends,
// and what has changed since is the scope's that was open. A reading may take 0.2 ms, so a meter runs
// only when a total is known to grow.

enum class Gauge : uint8_t { kHeap, kMapped, kPinned, kWaiting, kDevice };
inline constexpr size_t kGauges = 5;
using GaugeBytes = std::array<int64_t, kGauges>;

/// What has changed within each scope, by its name_id().
using ScopeChanges = std::map<uint32_t, GaugeBytes>;

/// For the calling thread, from nothing; one at a time in a process.
void start_scope_meter(std::function<GaugeBytes()> read);
void stop_scope_meter();
/// Up to now, by the metered thread.
ScopeChanges scope_changes();

/// Private to scope.cpp: this thread leaves `scope` for another.
inline std::atomic<bool> scope_meter_runs{false};
void meter_scope(uint32_t scope);

}  // namespace muster::memory
