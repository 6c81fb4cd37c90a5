#include "muster/memory/allocator/scope_meter.h"

#include <mutex>
#include <utility>

#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {
namespace {

struct ScopeMeter {
  std::mutex mutex;
  const ThreadState* thread = nullptr;  // whose scopes are metered; null: it does not run
  std::function<GaugeBytes()> read;
  GaugeBytes last{};
  ScopeChanges changes;

  void note(uint32_t scope) {
    const GaugeBytes now = read();
    GaugeBytes& changed = changes[scope];
    for (size_t i = 0; i < kGauges; ++i) changed[i] += now[i] - last[i];
    last = now;
  }
};

ScopeMeter& scope_meter() {
  static auto* const meter = new ScopeMeter;
  return *meter;
}

}  // namespace

void start_scope_meter(std::function<GaugeBytes()> read) {
  ScopeMeter& meter = scope_meter();
  const std::lock_guard lock(meter.mutex);
  meter.thread = &this_thread_state;
  meter.read = std::move(read);
  meter.changes.clear();
  meter.last = meter.read();
  scope_meter_runs.store(true);
}

void stop_scope_meter() {
  ScopeMeter& meter = scope_meter();
  const std::lock_guard lock(meter.mutex);
  scope_meter_runs.store(false);
  meter.thread = nullptr;
  meter.read = {};
  meter.changes.clear();
}

ScopeChanges scope_changes() {
  meter_scope(this_thread_state.scope);
  const std::lock_guard lock(scope_meter().mutex);
  return scope_meter().changes;
}

void meter_scope(uint32_t scope) {
  ScopeMeter& meter = scope_meter();
  const std::lock_guard lock(meter.mutex);
  if (meter.thread == &this_thread_state) meter.note(scope);
}

}  // namespace muster::memory
