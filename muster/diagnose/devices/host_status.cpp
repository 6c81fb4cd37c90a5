#include "muster/diagnose/devices/host_status.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "muster/base/host.h"
#include "muster/base/host_memory.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

/// "avg10=0.12" of a line of words.
std::optional<double> average_of(const std::string& line, std::string_view key) {
  for (const std::string& word : split(line, ' ')) {
    if (word.starts_with(key) && word.size() > key.size() && word[key.size()] == '=')
      return to_double(std::string_view(word).substr(key.size() + 1));
  }
  return std::nullopt;
}

struct PressureSource {
  std::optional<Pressure> pressure;
  bool is_group = false;
};

PressureSource pressure_of(const Surroundings& surroundings, const std::string& resource) {
  if (const auto text = cgroup_file(resource + ".pressure", surroundings.root)) {
    if (auto pressure = parse_pressure(*text)) return {pressure, true};
  }
  return {parse_pressure(surroundings.file("/proc/pressure/" + resource).value_or("")), false};
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal …
void read_ticks(const Surroundings& surroundings, HostStatus& status) {
  const std::string text = surroundings.file("/proc/stat").value_or("");
  if (!text.starts_with("cpu ")) return;
  constexpr size_t kIdle = 3, kWaits = 4, kLast = 8;  // guests' ticks count as user's already
  size_t field = 0;
  for (const std::string& word : split(text.substr(4, text.find('\n') - 4), ' ')) {
    const auto ticks = to_int(word);
    if (!ticks || *ticks < 0) continue;
    if (field == kLast) break;
    status.cpu_ticks += static_cast<uint64_t>(*ticks);
    if (field != kIdle && field != kWaits) status.cpu_busy_ticks += static_cast<uint64_t>(*ticks);
    ++field;
  }
}

}  // namespace

std::optional<Pressure> parse_pressure(const std::string& text) {
  std::optional<Pressure> pressure;
  for (const std::string& line : split(text, '\n')) {
    const auto ten = average_of(line, "avg10"), minute = average_of(line, "avg60"),
               five = average_of(line, "avg300");
    if (!ten || !minute || !five) continue;
    if (line.starts_with("some ")) {
      pressure.emplace();
      pressure->some_10s = *ten, pressure->some_60s = *minute, pressure->some_300s = *five;
    } else if (line.starts_with("full ") && pressure) {
      pressure->full_10s = ten, pressure->full_60s = minute, pressure->full_300s = five;
    }
  }
  return pressure;
}

std::optional<double> HostStatus::memory_share() const {
  if (cgroup && cgroup->limit_bytes && (total_bytes == 0 || *cgroup->limit_bytes < total_bytes)) {
    return std::min(1.0,
                    static_cast<double>(cgroup->used_bytes - cgroup->cache_bytes) /
                        static_cast<double>(*cgroup->limit_bytes));
  }
  if (total_bytes == 0) return std::nullopt;
  const uint64_t used = total_bytes - std::min(total_bytes, available_bytes);
  return static_cast<double>(used) / static_cast<double>(total_bytes);
}

HostStatus host_status(const Surroundings& surroundings) {
  const std::string meminfo = surroundings.file("/proc/meminfo").value_or("");
  const auto bytes = [&](const char* key) { return meminfo_bytes(meminfo, key).value_or(0); };
  HostStatus status{.name = host_name(),
                    .total_bytes = bytes("MemTotal:"),
                    .available_bytes = bytes("MemAvailable:"),
                    .swap_total_bytes = bytes("SwapTotal:")};
  status.swap_used_bytes =
      status.swap_total_bytes - std::min(status.swap_total_bytes, bytes("SwapFree:"));
  status.cgroup = cgroup_memory_use(surroundings.root);
  status.oom_kills = oom_kills(surroundings.root);
  const PressureSource memory = pressure_of(surroundings, "memory");
  status.memory_pressure = memory.pressure;
  status.pressure_is_group = memory.is_group;
  status.cpu_pressure = pressure_of(surroundings, "cpu").pressure;
  status.io_pressure = pressure_of(surroundings, "io").pressure;
  const std::string load = surroundings.file("/proc/loadavg").value_or("");
  status.load_1m = to_double(load.substr(0, load.find(' ')));
  // By the affinity: the standard library asks sched_getaffinity.
  status.cores = std::max(1.0, static_cast<double>(std::thread::hardware_concurrency()));
  if (const auto quota = cgroup_cpus(surroundings.root))
    status.cores = std::min(status.cores, *quota);
  read_ticks(surroundings, status);
  return status;
}

std::vector<HostProcess> host_processes(const Surroundings& surroundings,
                                        const std::vector<PublishedState>& published,
                                        size_t most) {
  std::vector<std::pair<uint64_t, int64_t>> by_size;  // resident bytes, process
  for (const int64_t pid : process_ids(surroundings)) {
    if (const uint64_t bytes = resident_bytes(surroundings, pid); bytes > 0)
      by_size.emplace_back(bytes, pid);
  }
  std::ranges::sort(by_size, std::ranges::greater());
  std::vector<HostProcess> processes;
  for (const PublishedState& state : published) {
    auto facts = process_facts(surroundings, state.process.pid);
    if (facts && facts->started == state.process.started)
      processes.push_back({std::move(*facts), state});
  }
  size_t others = 0;
  for (const auto& [bytes, pid] : by_size) {
    if (others >= most) break;
    const auto is_same = [pid = pid](const HostProcess& one) { return one.facts.pid == pid; };
    if (std::ranges::any_of(processes, is_same)) continue;
    if (auto facts = process_facts(surroundings, pid)) {
      processes.push_back({std::move(*facts)});
      ++others;
    }
  }
  std::ranges::stable_sort(processes, std::ranges::greater(), [](const HostProcess& process) {
    return process.facts.rss_bytes;
  });
  return processes;
}

}  // namespace muster::diagnose
