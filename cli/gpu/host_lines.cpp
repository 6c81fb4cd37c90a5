// The machine's and the control group's memory, as lines.
#include <algorithm>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

#include "cli/gpu/machine_rows.h"

namespace muster::cli {
namespace {

using diagnose::HostStatus;
using diagnose::Pressure;

constexpr double kFull = 0.9;  // of memory
constexpr size_t kGroupColumns = 28;
constexpr double kStalled = 10;  // percent of the time

std::string pressure_text(const char* what, const std::optional<Pressure>& pressure) {
  return pressure ? concat(what, ' ', fixed(pressure->some_10s, 1), " %") : "";
}

ShownLine memory_line(const HostStatus& host) {
  if (host.total_bytes == 0) return {"host      memory not to be read", Look::kDim};
  const uint64_t used = host.total_bytes - std::min(host.total_bytes, host.available_bytes);
  const double share = static_cast<double>(used) / static_cast<double>(host.total_bytes);
  std::string text = concat(
      "host      memory ",
      bytes_of(used, host.total_bytes),
      " (",
      percent_of(share),
      "), swap ",
      host.swap_total_bytes == 0 ? "none" : bytes_of(host.swap_used_bytes, host.swap_total_bytes));
  if (host.load_1m)
    text += concat(", load ",
                   fixed(*host.load_1m, 2),
                   " on ",
                   shortest(host.cores),
                   host.cores == 1 ? " core" : " cores");
  return {text, share >= kFull ? Look::kWarning : Look::kPlain};
}

ShownLine group_line(const HostStatus& host) {
  const CgroupMemory& group = *host.cgroup;
  const uint64_t used = group.used_bytes - group.cache_bytes;
  std::string text = concat(
      "cgroup    ",
      group.limit_bytes ? bytes_of(used, *group.limit_bytes) : human_bytes(used) + ", no limit");
  bool is_full = false;
  if (group.limit_bytes && *group.limit_bytes > 0) {
    const double share = static_cast<double>(used) / static_cast<double>(*group.limit_bytes);
    text += concat(" (", percent_of(share), ")");
    is_full = share >= kFull;
  }
  text += concat(", and ",
                 human_bytes(group.cache_bytes),
                 " of files; ",
                 keep_tail(group.group, kGroupColumns));
  return {text, is_full ? Look::kWarning : Look::kPlain};
}

}  // namespace

std::vector<ShownLine> host_lines(const HostStatus& host) {
  std::vector<ShownLine> lines{memory_line(host)};
  if (host.cgroup) lines.push_back(group_line(host));
  std::vector<std::string> parts;
  for (const std::string& part : {pressure_text("memory", host.memory_pressure),
                                  pressure_text("cpu", host.cpu_pressure),
                                  pressure_text("io", host.io_pressure)}) {
    if (!part.empty()) parts.push_back(part);
  }
  const bool is_stalled = host.memory_pressure && host.memory_pressure->some_10s >= kStalled;
  if (!parts.empty())
    lines.push_back({concat("pressure  ",
                            join(parts, ", "),
                            " of the last 10 s (",
                            host.pressure_is_group ? "group" : "machine",
                            ')'),
                     is_stalled ? Look::kWarning : Look::kPlain});
  if (host.oom_kills.value_or(0) > 0)
    lines.push_back({concat("killed    ",
                            *host.oom_kills,
                            *host.oom_kills == 1 ? " process" : " processes",
                            " for memory so far"),
                     Look::kWarning});
  return lines;
}

}  // namespace muster::cli
