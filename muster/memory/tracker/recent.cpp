#include "muster/memory/tracker/recent.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace muster::memory {
namespace {

struct RecentIterations {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceType, int>, std::deque<IterationEnd>> of_device;
};

RecentIterations& all_recent() {
  static auto* const all = new RecentIterations;
  return *all;
}

std::pair<c10::DeviceType, int> key_of(c10::Device device) {
  return {device.type(), device.is_cpu() ? 0 : device.index()};
}

}  // namespace

void note_iteration(c10::Device device, const IterationEnd& end) {
  RecentIterations& all = all_recent();
  const std::lock_guard lock(all.mutex);
  std::deque<IterationEnd>& ends = all.of_device[key_of(device)];
  ends.push_back(end);
  if (ends.size() > kRecentIterations) ends.pop_front();
}

void forget_iterations(c10::Device device) {
  RecentIterations& all = all_recent();
  const std::lock_guard lock(all.mutex);
  all.of_device.erase(key_of(device));
}

std::vector<IterationEnd> recent_iterations(c10::Device device) {
  RecentIterations& all = all_recent();
  const std::lock_guard lock(all.mutex);
  const auto found = all.of_device.find(key_of(device));
  if (found == all.of_device.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace muster::memory
