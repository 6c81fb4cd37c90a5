#include "muster/parallel/replicas/replica_timer.h"

#include <chrono>
#include <utility>

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace muster::parallel {
namespace {

void record(std::optional<c10::Event>& event, c10::Device device) {
  if (!event) event.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // one that has a time
  event->record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
}

}  // namespace

ReplicaTimer::ReplicaTimer(c10::Device device, std::function<double()> clock)
    : device_(device), clock_(std::move(clock)) {}

double ReplicaTimer::now() const {
  if (clock_) return clock_();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ReplicaTimer::start() {
  complete_ = false;
  if (uses_events()) {
    record(first_, device_);
  } else {
    started_ = now();
  }
}

void ReplicaTimer::stop() {
  if (uses_events()) {
    record(last_, device_);
  } else {
    stopped_ = now();
  }
  complete_ = true;
}

std::optional<double> ReplicaTimer::seconds() const {
  if (!complete_) return std::nullopt;
  if (!uses_events()) return stopped_ - started_;
  last_->synchronize();
  return 1e-3 * first_->elapsedTime(*last_);
}

}  // namespace muster::parallel
