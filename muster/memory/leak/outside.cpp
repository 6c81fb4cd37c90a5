#include "muster/memory/leak/outside.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/leak/growth.h"

namespace muster::memory {
namespace {

/// Ends that a suspicion is made of.
constexpr size_t kSuspicionEnds = 6;
/// Metered ends that a scope is told from.
constexpr int64_t kMeteredEnds = 3;

std::optional<c10::Device> device_of(std::span<const at::Tensor> parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.defined() && !parameter.is_cpu()) return parameter.device();
  }
  return std::nullopt;
}

/// 0 of a device or an allocator that does not count.
template <class Read>
int64_t counted(const Read& read) {
  try {
    return read();
  } catch (const Error&) {
    return 0;
  }
}

GaugeBytes read_gauges(std::optional<c10::Device> device) {
  GaugeBytes bytes{};
  const auto at = [&bytes](Gauge gauge) -> int64_t& { return bytes[static_cast<size_t>(gauge)]; };
  const HeapBytes heap = heap_bytes();
  at(Gauge::kHeap) = heap.in_use - cpu_counters().current;
  at(Gauge::kMapped) = process_bytes().mapped - heap.from_system;
  if (!device) return bytes;
  at(Gauge::kPinned) = counted([&] { return held_pinned_bytes(device->type()); });
  at(Gauge::kWaiting) = counted([&] { return waiting_bytes(*device); });
  at(Gauge::kDevice) = counted([&] { return device_counters(*device).current; });
  return bytes;
}

bool grew_lately(const Series& series, double suspicious) {
  const std::span<const int64_t> values(series.values());
  return values.size() >= kSuspicionEnds &&
         median_slope(values.subspan(values.size() - kSuspicionEnds)) >= suspicious;
}

}  // namespace

Outside::~Outside() {
  if (metered_) stop_scope_meter();
}

/// Mappings of a process with LibTorch are hundreds of lines, which take longer to read than all else here. New
/// code takes addresses, or a heap that is larger than it was in the window, by what is worth to be told.
bool Outside::looks_for_code(const ProcessBytes& process, double suspicious) const {
  const std::span<const int64_t> heaps(heap.values());
  if (code.values().empty() || process.mapped > mapped_with_code_) return true;
  const bool has_grown = static_cast<double>(heaps.back() - least_heap_) >= suspicious / 2;
  return has_grown && heaps.back() > *std::ranges::max_element(heaps.first(heaps.size() - 1));
}

void Outside::add_code(const ProcessBytes& process, size_t window, double suspicious) {
  const bool looks = looks_for_code(process, suspicious);
  if (looks) mapped_with_code_ = process.mapped;
  least_heap_ = looks ? heap.values().back() : std::min(least_heap_, heap.values().back());
  code.add(looks ? made_code_bytes() : code.values().back(), window);
}

void Outside::add_process(const IterationMemory& memory,
                          const ProcessBytes& process,
                          size_t window) {
  if (memory.heap_from_system == 0 || process.resident == 0) return;  // one of them does not tell
  resident.add(process.resident - memory.other_heap_bytes - cpu_counters().current, window);
  mapped.add(process.mapped - memory.heap_from_system, window);
}

void Outside::add_device(std::span<const at::Tensor> parameters, size_t window) {
  device = device_of(parameters);
  if (!device) return;
  try {
    waiting.add(waiting_bytes(*device), window);
    device_bytes.add(device_counters(*device).current, window);
    device_blocks.add(live_device_blocks(*device), window);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a device that does not count
  }
  pinned.add(counted([this] { return held_pinned_bytes(device->type()); }), window);
}

void Outside::meter(double suspicious) {
  const bool suspected = std::ranges::any_of(
      std::initializer_list<const Series*>{&heap, &mapped, &pinned, &waiting, &device_bytes},
      [&](const Series* one) { return grew_lately(*one, suspicious); });
  if (metered_) {
    changes_ = scope_changes();
    ++metered_ends_;
  }
  if (suspected == metered_) return;
  metered_ = suspected;
  if (suspected) {
    metered_ends_ = 0;
    changes_.clear();
    start_scope_meter([on = device] { return read_gauges(on); });
  } else {
    stop_scope_meter();
  }
}

void Outside::add(const IterationMemory& memory,
                  std::span<const at::Tensor> parameters,
                  size_t window,
                  double suspicious) {
  heap.add(memory.other_heap_bytes, window);
  const ProcessBytes process = process_bytes();
  add_code(process, window, suspicious);
  add_process(memory, process, window);
  add_device(parameters, window);
  meter(suspicious);
}

uint32_t Outside::scope_of(Gauge gauge, double bytes_per_iteration) const {
  if (metered_ends_ < kMeteredEnds) return 0;
  uint32_t found = 0;
  double least_off = bytes_per_iteration / 2;
  for (const auto& [scope, changed] : changes_) {
    const double rate = static_cast<double>(changed[static_cast<size_t>(gauge)]) /
                        static_cast<double>(metered_ends_);
    const double off = std::abs(rate - bytes_per_iteration);
    if (off >= least_off) continue;
    least_off = off;
    found = scope;
  }
  return found;
}

}  // namespace muster::memory
