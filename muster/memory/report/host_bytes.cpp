#include "muster/memory/report/host_bytes.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include <unistd.h>

#include "muster/base/host_memory.h"
#include "muster/diagnose/devices/host_status.h"
#include "muster/diagnose/devices/process_facts.h"

namespace muster::memory {
namespace {

constexpr std::chrono::seconds kDriverLimit{5};

int64_t as_signed(uint64_t bytes) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(bytes, kMost));
}

OtherProcess as_other(const diagnose::ProcessFacts& facts, int64_t bytes) {
  return {.pid = facts.pid, .command = facts.command, .user = facts.user, .bytes = bytes};
}

/// The one that this process is on; else the one with as much memory; else the only one.
const diagnose::DeviceStatus* device_in(const std::vector<diagnose::DeviceStatus>& devices,
                                        std::optional<int64_t> total_bytes) {
  const auto only = [&](const auto& is_it) -> const diagnose::DeviceStatus* {
    const diagnose::DeviceStatus* found = nullptr;
    for (const diagnose::DeviceStatus& device : devices) {
      if (!is_it(device)) continue;
      if (found != nullptr) return nullptr;
      found = &device;
    }
    return found;
  };
  const auto is_ours = [](const diagnose::DeviceStatus& device) {
    return std::ranges::any_of(device.processes, [](const diagnose::DeviceProcess& process) {
      return process.pid == ::getpid();
    });
  };
  if (const auto* device = only(is_ours)) return device;
  const auto has_total = [&](const diagnose::DeviceStatus& device) {
    constexpr int64_t kRounding = int64_t{64} << 20;  // the error's text has two digits
    return total_bytes && device.memory.value &&
           std::abs(as_signed(device.memory.value->total_bytes) - *total_bytes) < kRounding;
  };
  if (const auto* device = only(has_total)) return device;
  return only([](const diagnose::DeviceStatus&) { return true; });
}

}  // namespace

HostBytes read_host_bytes(const diagnose::Surroundings& surroundings) {
  const diagnose::HostStatus status = diagnose::host_status(surroundings);
  HostBytes host{.total = as_signed(status.total_bytes),
                 .available = as_signed(status.available_bytes)};
  if (status.cgroup && status.cgroup->limit_bytes) {
    host.group_limit = as_signed(*status.cgroup->limit_bytes);
    host.group_used = as_signed(status.cgroup->used_bytes - status.cgroup->cache_bytes);
  }
  if (const auto addresses = limited_addresses(surroundings.root)) {
    host.address_limit = as_signed(addresses->limit_bytes);
    host.addresses = as_signed(addresses->used_bytes);
  }
  host.resident = as_signed(diagnose::resident_bytes(surroundings, ::getpid()));
  return host;
}

void fill_host(OomFacts& facts, const HostBytes& host) {
  const int64_t live = facts.live.value_or(0);
  if (host.total > 0) facts.total = host.total;
  // What could still be had, by the limit that leaves least.
  struct Limit {
    CapKind kind;
    int64_t cap, free;
  };
  std::vector<Limit> limits;
  if (host.total > 0) limits.push_back({CapKind::kDevice, host.total, host.available});
  if (host.group_limit)
    limits.push_back({CapKind::kGroup,
                      *host.group_limit,
                      std::max<int64_t>(0, *host.group_limit - host.group_used.value_or(0))});
  if (host.address_limit && host.addresses)
    limits.push_back({CapKind::kAddresses,
                      *host.address_limit,
                      std::max<int64_t>(0, *host.address_limit - *host.addresses)});
  std::ranges::stable_sort(limits, std::ranges::less(), &Limit::free);
  if (facts.cap) {
    facts.cap_kind = CapKind::kCapacity;
    facts.free = std::max<int64_t>(0, *facts.cap - live);
    if (!limits.empty()) facts.beyond = std::max<int64_t>(0, limits.front().free - *facts.free);
  } else if (!limits.empty()) {
    facts.cap_kind = limits.front().kind;
    facts.cap = limits.front().cap;
    facts.free = limits.front().free;
    if (limits.size() > 1) facts.beyond = limits[1].free - limits[0].free;
  }
  if (host.resident > 0) facts.outside = std::max<int64_t>(0, host.resident - live);
  const bool group = host.group_limit && host.group_used;
  const int64_t used = group ? *host.group_used : host.total - host.available;
  if (host.total > 0 || group) facts.others = std::max<int64_t>(0, used - host.resident);
}

std::vector<OtherProcess> other_host_processes(const diagnose::Surroundings& surroundings,
                                               size_t most) {
  std::vector<OtherProcess> others;
  for (const diagnose::HostProcess& process :
       diagnose::host_processes(surroundings, {}, most + 1)) {
    if (process.facts.pid == ::getpid() || others.size() == most) continue;
    others.push_back(as_other(process.facts, as_signed(process.facts.rss_bytes)));
  }
  return others;
}

std::vector<OtherProcess> other_device_processes(const diagnose::MachineReaderOptions& options,
                                                 std::optional<int64_t> total_bytes,
                                                 size_t most) {
  std::vector<OtherProcess> others;
  const auto read = std::make_shared<std::promise<diagnose::MachineStatus>>();
  std::future<diagnose::MachineStatus> coming = read->get_future();
  std::thread([read, options] { read->set_value(diagnose::read_machine(options)); }).detach();
  if (coming.wait_for(kDriverLimit) != std::future_status::ready) return others;
  const diagnose::MachineStatus status = coming.get();
  const diagnose::DeviceStatus* const device = device_in(status.devices, total_bytes);
  if (device == nullptr) return others;
  for (const diagnose::DeviceProcess& process : device->processes) {
    if (process.pid == ::getpid()) continue;
    const int64_t bytes = as_signed(process.memory.value.value_or(0));
    others.push_back(process.facts ? as_other(*process.facts, bytes)
                                   : OtherProcess{.pid = process.pid, .bytes = bytes});
  }
  std::ranges::stable_sort(others, std::ranges::greater(), &OtherProcess::bytes);
  if (others.size() > most) others.resize(most);
  return others;
}

}  // namespace muster::memory
