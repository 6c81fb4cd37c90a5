#include "muster/train/program/run_status.h"

#include <algorithm>
#include <utility>

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
    : has_thread_ranks_(plan.threads > 0) {
  for (const c10::Device& device : plan.devices)
    if (!device.is_cpu() && std::ranges::find(devices_, device) == devices_.end())
      devices_.push_back(device);
  state_.program = std::move(program);
  state_.rank = env ? env->rank : -1;
  state_.world_size = env ? env->world_size : plan.threads > 0 ? plan.threads : -1;
}

void RunStatus::attach(FitCallbacks& callbacks) {
  if (!publisher_.is_open()) return;
  say({}, "begins");
  callbacks.epoch_began = [this, own = std::move(callbacks.epoch_began)](const HookPlace& at) {
    say(at, concat("epoch ", at.epoch, " begins"));
    if (own) own(at);
  };
  callbacks.step_ended = [this, own = std::move(callbacks.step_ended)](const StepEnd& end) {
    if (is_heard(end.at) && Clock::now() >= next_)  // no text in each step
      say(end.at, concat("epoch ", end.at.epoch, ", step ", end.at.step));
    if (own) own(end);
  };
  callbacks.evaluated = [this, own = std::move(callbacks.evaluated)](const EvaluationEnd& end) {
    say(end.at, concat("epoch ", end.at.epoch, ", ", name_of(end.phase), " ended"));
    if (own) own(end);
  };
}

std::string RunStatus::why_not() const {
  if (publisher_.is_open() || !process_environment("MUSTER_STATUS_DIR")) return "";
  return concat("`muster gpu` does not show this run: ", publisher_.why());
}

bool RunStatus::is_heard(const HookPlace& at) const { return !has_thread_ranks_ || at.rank == 0; }

void RunStatus::say(const HookPlace& at, std::string doing) {
  if (!is_heard(at)) return;
  next_ = Clock::now() + kPeriod;
  state_.doing = std::move(doing);
  state_.devices.clear();
  for (const c10::Device& device : devices_)
    if (const auto allocator = allocator_of(device)) state_.devices.push_back(*allocator);
  publisher_.publish(state_);
}

}  // namespace muster::train
