#include "cli/gpu/machine_rows.h"

#include <algorithm>
#include <tuple>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::cli {
namespace {

using diagnose::DeviceProcess;
using diagnose::DeviceStatus;
using diagnose::DriverStatus;
using diagnose::HostProcess;
using diagnose::HostStatus;
using diagnose::MachineStatus;
using diagnose::MemoryUse;
using diagnose::MigInstance;
using diagnose::PublishedState;
using diagnose::Reading;
using diagnose::Whereabouts;

constexpr const char* kNothing = "-";
constexpr double kHot = 0.9;  // of memory

std::string short_name(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return std::string(name.starts_with(kMaker) ? name.substr(kMaker.size()) : name);
}

/// "MIG 3g.20gb" of "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
std::string instance_name(const DeviceStatus& device, const MigInstance& instance) {
  if (instance.name.empty()) return "MIG";
  const bool has_both = instance.name.starts_with(device.name + ' ');
  return has_both ? instance.name.substr(device.name.size() + 1) : short_name(instance.name);
}

std::string watts(const Reading<double>& power, const Reading<double>& limit) {
  if (!power.value) return kNothing;
  return limit.value ? concat(fixed(*power.value, 0), " of ", fixed(*limit.value, 0), " W")
                     : concat(fixed(*power.value, 0), " W");
}

TextCell memory_cell(const Reading<MemoryUse>& memory) {
  if (!memory.value) return {kNothing, Look::kDim};
  return {bytes_of(memory.value->used_bytes, memory.value->total_bytes), Look::kPlain};
}

TextCell share_cell(std::optional<double> share) {
  if (!share) return {kNothing, Look::kDim};
  return {percent_of(*share), *share >= kHot ? Look::kWarning : Look::kPlain};
}

std::optional<double> share_of(const Reading<MemoryUse>& memory) {
  if (!memory.value || memory.value->total_bytes == 0) return std::nullopt;
  return static_cast<double>(memory.value->used_bytes) /
         static_cast<double>(memory.value->total_bytes);
}

TextCell utilization_cell(const DeviceStatus& device) {
  if (device.is_mig()) return {"MIG", Look::kDim};
  if (!device.utilization_percent.value) return {kNothing, Look::kDim};
  return {percent_of(*device.utilization_percent.value / 100), Look::kPlain};
}

/// "1.0", where the instance is known.
std::string place_of(const DeviceStatus& device, const DeviceProcess& process) {
  for (const MigInstance& instance : device.instances) {
    if (process.gpu_instance && instance.gpu_instance == process.gpu_instance &&
        instance.compute_instance == process.compute_instance)
      return concat(device.index, '.', instance.index);
  }
  return std::to_string(device.index);
}

std::string command_of(const diagnose::ProcessFacts& facts, const PublishedState* published) {
  if (published == nullptr || published->rank < 0) return facts.command;
  return concat("rank ", published->rank, ": ", facts.command);
}

ProcessRow row_of(const DeviceStatus& device, const DeviceProcess& process) {
  ProcessRow row{.device = place_of(device, process),
                 .is_listed = true,
                 .device_index = device.index,
                 .pid = process.pid,
                 .kind = process.kind};
  row.device_bytes = process.memory.value;
  row.memory = process.memory.value ? human_bytes(*process.memory.value) : kNothing;
  if (process.allocator) {
    row.allocated_bytes = process.allocator->allocated_bytes;
    row.reserved_bytes = process.allocator->reserved_bytes;
  }
  if (process.published) row.published = &*process.published;
  if (process.facts) {
    row.facts = &*process.facts;
    row.user = process.facts->user;
    row.rss_bytes = process.facts->rss_bytes;
    row.command = command_of(*process.facts, row.published);
    return row;
  }
  row.look = Look::kDim;
  row.user = kNothing;
  row.command =
      process.where == Whereabouts::kElsewhere ? "not of this container" : "ended, or hidden";
  return row;
}

/// A row for each of its allocators, the resident bytes in the first.
void add_rows(const HostProcess& process, std::vector<ProcessRow>& rows) {
  const PublishedState* published = process.published ? &*process.published : nullptr;
  ProcessRow row{.pid = process.facts.pid,
                 .user = process.facts.user,
                 .rss_bytes = process.facts.rss_bytes,
                 .command = command_of(process.facts, published),
                 .facts = &process.facts,
                 .published = published};
  if (published == nullptr || published->devices.empty()) {
    rows.push_back(std::move(row));
    return;
  }
  for (const diagnose::PublishedDevice& device : published->devices) {
    row.device = device.name.empty() ? device.device : device.name;
    row.allocated_bytes = device.allocated_bytes;
    row.reserved_bytes = device.reserved_bytes;
    rows.push_back(row);
    row.rss_bytes.reset();
  }
}

TextCell bytes_cell(const std::optional<uint64_t>& bytes) {
  return {bytes ? human_bytes(*bytes) : "", Look::kPlain};
}

/// "next step: …" of the catalogue's row, by the words that were said.
void add_next_step(std::vector<ShownLine>& lines,
                   const std::string& row_name,
                   std::string_view said) {
  const diagnose::ErrorRow* row = row_name.empty() ? nullptr : diagnose::find_error_row(row_name);
  if (row == nullptr) return;
  const diagnose::Cause* chosen = nullptr;
  for (const diagnose::Cause& cause : row->causes) {
    const bool is_meant = !cause.when.empty() && said.find(cause.when) != std::string_view::npos;
    if (is_meant || (cause.when.empty() && chosen == nullptr)) chosen = &cause;
    if (is_meant) break;
  }
  if (chosen != nullptr)
    lines.push_back({concat("next step: ", chosen->step, " (", row->name, ")"), Look::kPlain});
}

/// "device 1: no utilisation (not available under MIG), no power (…)"; empty if nothing is missing.
std::string missing_of(const DeviceStatus& device) {
  std::vector<std::string> parts;
  const auto look = [&](const char* what, const auto& reading) {
    if (!reading.value) parts.push_back(concat("no ", what, " (", reading.why, ")"));
  };
  look("utilisation", device.utilization_percent);
  look("memory", device.memory);
  look("temperature", device.temperature_c);
  look("power", device.power_w);
  if (!device.processes_why.empty())
    parts.push_back(concat("no processes (", device.processes_why, ")"));
  const auto unknown = std::ranges::find_if(
      device.processes, [](const DeviceProcess& process) { return !process.memory.value; });
  if (unknown != device.processes.end())
    parts.push_back(concat("no bytes of processes: ", unknown->memory.why));
  return parts.empty() ? "" : concat("device ", device.index, ": ", join(parts, ", "));
}

}  // namespace

std::string bytes_of(uint64_t used, uint64_t total) {
  return concat(human_bytes(used), " of ", human_bytes(total));
}

std::string percent_of(double share) { return fixed(share * 100, 0) + " %"; }

std::string_view order_word(ProcessOrder order) {
  constexpr std::string_view kWords[] = {"device", "memory", "RSS", "pid"};
  return kWords[static_cast<size_t>(order)];
}

TextColumns device_columns(const MachineStatus& status, size_t width) {
  TextColumn index{.header = "#"};
  TextColumn name{.header = "device", .takes_rest = true};
  TextColumn load{.header = "util", .right = true};
  TextColumn memory{.header = "memory", .right = true},
      share{.header = "", .right = true, .goes = 1};
  TextColumn degrees{.header = "temp", .right = true, .goes = 2};
  TextColumn power{.header = "power", .right = true, .goes = 3};
  for (const DeviceStatus& device : status.devices) {
    const bool is_bad = !device.fault.empty();
    index.cells.push_back({std::to_string(device.index), is_bad ? Look::kBad : Look::kTitle});
    name.cells.push_back(
        {device.name.empty() ? "?" : short_name(device.name), is_bad ? Look::kBad : Look::kPlain});
    load.cells.push_back(utilization_cell(device));
    memory.cells.push_back(memory_cell(device.memory));
    share.cells.push_back(share_cell(device.memory_share()));
    degrees.cells.push_back({device.temperature_c.value
                                 ? concat(fixed(*device.temperature_c.value, 0), " °C")
                                 : kNothing});
    power.cells.push_back({watts(device.power_w, device.power_limit_w)});
    for (const MigInstance& instance : device.instances) {
      index.cells.push_back({concat(device.index, '.', instance.index), Look::kPlain});
      name.cells.push_back({instance_name(device, instance)});
      load.cells.push_back({""});
      memory.cells.push_back(memory_cell(instance.memory));
      share.cells.push_back(share_cell(share_of(instance.memory)));
      degrees.cells.push_back({""});
      power.cells.push_back({""});
    }
  }
  return TextColumns({index, name, load, memory, share, degrees, power}, width);
}

std::vector<ProcessRow> process_rows(const MachineStatus& status, ProcessOrder order) {
  std::vector<ProcessRow> rows;
  const auto is_shown = [&](int64_t pid) {
    return std::ranges::any_of(
        rows, [&](const ProcessRow& row) { return row.facts != nullptr && row.pid == pid; });
  };
  for (const DeviceStatus& device : status.devices) {
    for (const DeviceProcess& process : device.processes) rows.push_back(row_of(device, process));
  }
  for (const HostProcess& process : status.unlisted) add_rows(process, rows);
  for (const HostProcess& process : status.processes) {
    const bool is_wanted = status.devices.empty() || process.published.has_value();
    if (is_wanted && !is_shown(process.facts.pid)) add_rows(process, rows);
  }
  const auto by = [&](auto key) { std::ranges::stable_sort(rows, std::ranges::less(), key); };
  const auto falling = [](const std::optional<uint64_t>& bytes) {
    return ~bytes.value_or(0);  // the most first
  };
  switch (order) {
    case ProcessOrder::kDevice:
      by([&](const ProcessRow& row) {
        return std::tuple(
            !row.is_listed,
            row.device_index,
            row.is_listed ? row.device : std::string(),
            falling(row.is_listed ? row.device_bytes : std::optional(row.facts->rss_bytes)));
      });
      break;
    case ProcessOrder::kMemory:
      by([&](const ProcessRow& row) {
        return std::tuple(falling(row.device_bytes), falling(row.allocated_bytes));
      });
      break;
    case ProcessOrder::kRss:
      by([&](const ProcessRow& row) { return falling(row.rss_bytes); });
      break;
    case ProcessOrder::kPid:
      by([](const ProcessRow& row) { return row.pid; });
      break;
  }
  return rows;
}

TextColumns process_columns(const std::vector<ProcessRow>& rows, size_t width) {
  TextColumn device{.header = "#"};
  TextColumn pid{.header = "pid", .right = true}, user{.header = "user", .goes = 1};
  TextColumn kind{.header = "type", .goes = 4}, memory{.header = "memory", .right = true};
  TextColumn allocated{.header = "allocated", .right = true, .goes = 2};
  TextColumn reserved{.header = "reserved", .right = true, .goes = 3};
  TextColumn rss{.header = "RSS", .right = true, .goes = 2};
  TextColumn command{.header = "command", .takes_rest = true};
  for (const ProcessRow& row : rows) {
    device.cells.push_back({row.device, row.look});
    pid.cells.push_back({std::to_string(row.pid), row.look});
    user.cells.push_back({row.user, row.look});
    kind.cells.push_back({row.kind, row.look});
    memory.cells.push_back({row.memory, row.look});
    allocated.cells.push_back(bytes_cell(row.allocated_bytes));
    reserved.cells.push_back(bytes_cell(row.reserved_bytes));
    rss.cells.push_back(bytes_cell(row.rss_bytes));
    command.cells.push_back({row.command, row.look});
  }
  return TextColumns({device, pid, user, kind, memory, allocated, reserved, rss, command}, width);
}

ShownLine driver_line(const MachineStatus& status) {
  const DriverStatus& driver = status.driver;
  if (driver.kind == DriverStatus::kAbsent) return {driver.problem, Look::kDim};
  if (driver.kind == DriverStatus::kFailed) return {driver.problem, Look::kBad};
  std::string text = concat("NVIDIA driver ", driver.version.empty() ? "?" : driver.version);
  if (!driver.cuda.empty()) text += concat(", CUDA up to ", driver.cuda);
  const size_t count = status.devices.size();
  text += count == 0 ? ", no device" : count == 1 ? ", 1 device" : concat(", ", count, " devices");
  return {text, Look::kPlain};
}

std::vector<ShownLine> machine_notes(const MachineStatus& status) {
  std::vector<ShownLine> lines;
  if (status.driver.kind == DriverStatus::kFailed) {
    if (!status.driver.hint.empty())
      lines.push_back({concat("hint: ", status.driver.hint), Look::kPlain});
    if (!status.driver.error_row.empty())
      lines.push_back({concat("see ",
                              status.driver.error_row,
                              " in `muster doctor --catalogue`; `muster doctor --checks driver`"),
                       Look::kDim});
  }
  for (const DeviceStatus& device : status.devices) {
    if (!device.fault.empty()) {
      lines.push_back({device.fault, Look::kBad});
      add_next_step(lines, device.fault_row, "fallen off the bus");
      continue;
    }
    if (device.ecc_errors.value.value_or(0) > 0)
      lines.push_back({concat("device ",
                              device.index,
                              ": ",
                              *device.ecc_errors.value,
                              " errors of memory that could not be corrected since the driver was "
                              "loaded"),
                       Look::kWarning});
    if (device.compute_mode.value.value_or("default") != "default")
      lines.push_back(
          {concat("device ", device.index, ": compute mode ", *device.compute_mode.value),
           Look::kWarning});
    if (const std::string missing = missing_of(device); !missing.empty())
      lines.push_back({missing, Look::kDim});
  }
  if (status.has_foreign_pids)
    lines.push_back(
        {"this is a container: the driver names processes by the host's numbers, so "
         "that some cannot be told",
         Look::kDim});
  if (status.published.elsewhere > 0)
    lines.push_back({concat("status files of another container or machine, not shown: ",
                            status.published.elsewhere),
                     Look::kDim});
  if (status.published.unreadable > 0)
    lines.push_back({concat("status files that cannot be read, of another version of Muster? ",
                            status.published.unreadable),
                     Look::kWarning});
  if (!status.published.refused.empty())
    lines.push_back(
        {concat("status files do not count: ", status.published.refused), Look::kWarning});
  return lines;
}

}  // namespace muster::cli
