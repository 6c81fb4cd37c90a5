#include "muster/train/replicas/step_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/memory/allocator/counters.h"

namespace muster::train::detail {

StepMemory::StepMemory(c10::Device device, const FitPlan& plan)
    : device_(device),
      counts_(!device.is_cpu() &&
              (plan.threads == 0 || std::ranges::count(plan.devices, device) <= 1)) {}

int64_t StepMemory::peak() {
  try {
    return memory::device_counters(device_).peak;
  } catch (const Error&) {  // a kind of device that does not count
    counts_ = false;
    return 0;
  }
}

void StepMemory::look() {
  if (!counts_ || !in_steps_) return;
  if (const int64_t now = peak(); now > beside_) most_ = std::max(most_, now);
}

void StepMemory::begin_step() {
  look();
  if (!counts_ || std::exchange(in_steps_, true)) return;
  beside_ = peak();
  if (std::exchange(has_begun_, true) || !counts_) return;
  memory::reset_device_peak(device_);  // it is of units that were measured
  beside_ = 0;
}

void StepMemory::end_steps() {
  look();
  in_steps_ = false;
}

double StepMemory::most() {
  look();
  return static_cast<double>(most_);
}

std::vector<memory::OwnedMemory> gradient_memory(const torch::nn::Module& module) {
  std::vector<memory::OwnedMemory> all;
  for (const memory::OwnedTensor& one : memory::owned_tensors(module)) {
    if (one.owner != memory::Owner::kGradient) continue;
    if (auto there = memory::memory_of(one)) all.push_back(*std::move(there));
  }
  return all;
}

}  // namespace muster::train::detail
