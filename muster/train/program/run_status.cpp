#include "muster/train/program/run_status.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>

#include "muster/base/text.h"
#include "muster/tensor/device/cuda.h"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Nothing where the device has no allocator that counts, or it has made no block yet.
std::optional<diagnose::PublishedDevice> allocator_of(c10::Device device) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return std::nullopt;
  const auto stats = allocator->getDeviceStats(device.index());
  constexpr size_t kAll = 0;  // StatType::AGGREGATE: over all pools
  const auto bytes = [](int64_t count) {
    return static_cast<uint64_t>(std::max<int64_t>(0, count));
  };
  return diagnose::PublishedDevice{
      .device = device.is_cuda() ? tensor::cuda_bus_id(device.index()) : device.str(),
      .name = device.str(),
      .allocated_bytes = bytes(stats.allocated_bytes[kAll].current),
      .reserved_bytes = bytes(stats.reserved_bytes[kAll].current),
      .peak_allocated_bytes = bytes(stats.allocated_bytes[kAll].peak),
      .peak_reserved_bytes = bytes(stats.reserved_bytes[kAll].peak),
      .retries = bytes(stats.num_alloc_retries),
      .out_of_memory = bytes(stats.num_ooms)};
}

}  // namespace

RunStatus::RunStatus(std::string program, const FitPlan& plan, const std::optional<RankEnv>& env)
    : plan_(plan) {
  state_.program = std::move(program);
  state_.rank = env ? env->rank : -1;
  state_.world_size = env ? env->world_size : plan.threads > 0 ? plan.threads : -1;
}

void RunStatus::attach(FitCallbacks& callbacks) {
  if (!publisher_.is_open()) return;
  say({}, "begins", /*now=*/true);
  callbacks.epoch_began = [this, own = std::move(callbacks.epoch_began)](const HookPlace& at) {
    say(at, concat("epoch ", at.epoch, " begins"), /*now=*/true);
    if (own) own(at);
  };
  callbacks.step_ended = [this, own = std::move(callbacks.step_ended)](const StepEnd& end) {
    say(end.at, concat("epoch ", end.at.epoch, ", step ", end.at.step), /*now=*/false);
    if (own) own(end);
  };
  callbacks.evaluated = [this, own = std::move(callbacks.evaluated)](const EvaluationEnd& end) {
    say(end.at, concat("epoch ", end.at.epoch, ", ", name_of(end.phase), " ended"), /*now=*/true);
    if (own) own(end);
  };
}

std::string RunStatus::why_not() const {
  if (publisher_.is_open() || !process_environment("MUSTER_STATUS_DIR")) return "";
  return concat("`muster gpu` does not show this run: ", publisher_.why());
}

void RunStatus::say(const HookPlace& at, const std::string& doing, bool now) {
  if (plan_.threads > 0 && at.rank != 0) return;
  const Clock::time_point time = Clock::now();
  if (!now && time < next_) return;
  next_ = time + kPeriod;
  state_.doing = doing;
  state_.devices.clear();
  std::vector<c10::Device> devices;  // ranks may share one
  for (const c10::Device& device : plan_.devices)
    if (!device.is_cpu() && std::ranges::find(devices, device) == devices.end())
      devices.push_back(device);
  for (const c10::Device& device : devices)
    if (const auto allocator = allocator_of(device)) state_.devices.push_back(*allocator);
  publisher_.publish(state_);
}

}  // namespace muster::train
