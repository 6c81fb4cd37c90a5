// The JSON of `muster gpu --json`.
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/gpu/machine_text.h"

namespace muster::cli {
namespace {

using diagnose::DeviceProcess;
using diagnose::DeviceStatus;
using diagnose::HostProcess;
using diagnose::HostStatus;
using diagnose::MemoryUse;
using diagnose::MigInstance;
using diagnose::Pressure;
using diagnose::ProcessFacts;
using diagnose::PublishedDevice;
using diagnose::PublishedState;
using diagnose::Reading;

constexpr int kFormatVersion = 1;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json memory_json(const std::optional<MemoryUse>& memory) {
  if (!memory) return {};
  return {{"total_bytes", memory->total_bytes},
          {"used_bytes", memory->used_bytes},
          {"free_bytes", memory->free_bytes},
          {"reserved_bytes", memory->reserved_bytes}};
}

Json allocator_json(const PublishedDevice& device) {
  return {{"device", device.device},
          {"name", device.name},
          {"allocated_bytes", device.allocated_bytes},
          {"reserved_bytes", device.reserved_bytes},
          {"peak_allocated_bytes", device.peak_allocated_bytes},
          {"peak_reserved_bytes", device.peak_reserved_bytes},
          {"retries", device.retries},
          {"out_of_memory", device.out_of_memory}};
}

Json published_json(const std::optional<PublishedState>& state) {
  if (!state) return {};
  Json allocators = Json::array();
  for (const PublishedDevice& device : state->devices) allocators.push_back(allocator_json(device));
  return {{"program", state->program},
          {"doing", state->doing},
          {"rank", state->rank < 0 ? Json() : Json(state->rank)},
          {"world_size", state->world_size < 0 ? Json() : Json(state->world_size)},
          {"updated_unix_s", state->updated_unix_s},
          {"allocators", std::move(allocators)}};
}

/// The same keys whether there are facts or not.
void add_facts(Json& json, const ProcessFacts* facts) {
  json["user"] = facts != nullptr ? Json(facts->user) : Json();
  json["uid"] = facts != nullptr && facts->uid >= 0 ? Json(facts->uid) : Json();
  json["command"] = facts != nullptr ? Json(facts->command) : Json();
  json["rss_bytes"] = facts != nullptr ? Json(facts->rss_bytes) : Json();
  json["rss_peak_bytes"] =
      facts != nullptr && facts->peak_bytes > 0 ? Json(facts->peak_bytes) : Json();
  json["swap_bytes"] = facts != nullptr ? Json(facts->swap_bytes) : Json();
  json["cgroup"] = facts != nullptr ? text_or_null(facts->cgroup) : Json();
}

Json device_process_json(const DeviceProcess& process) {
  Json json{{"pid", process.pid},
            {"where", whereabouts_word(process.where)},
            {"kind", process.kind},
            {"memory_bytes", or_null(process.memory.value)},
            {"gpu_instance", or_null(process.gpu_instance)},
            {"compute_instance", or_null(process.compute_instance)}};
  add_facts(json, process.facts ? &*process.facts : nullptr);
  json["allocator"] = process.allocator ? allocator_json(*process.allocator) : Json();
  json["published"] = published_json(process.published);
  return json;
}

Json host_process_json(const HostProcess& process) {
  Json json{{"pid", process.facts.pid}};
  add_facts(json, &process.facts);
  json["published"] = published_json(process.published);
  return json;
}

Json instance_json(const MigInstance& instance) {
  return {{"index", instance.index},
          {"name", instance.name},
          {"uuid", instance.uuid},
          {"gpu_instance", or_null(instance.gpu_instance)},
          {"compute_instance", or_null(instance.compute_instance)},
          {"memory", memory_json(instance.memory.value)}};
}

Json device_json(const DeviceStatus& device) {
  Json missing = Json::object(), instances = Json::array(), processes = Json::array();
  Json json{{"index", device.index},
            {"name", text_or_null(device.name)},
            {"uuid", text_or_null(device.uuid)},
            {"bus_id", text_or_null(device.bus_id)},
            {"fault", text_or_null(device.fault)},
            {"error", text_or_null(device.fault_row)}};
  const auto add = [&](const char* key, const auto& reading, Json value) {
    json[key] = std::move(value);
    if (!reading.value) missing[key] = reading.why;
  };
  const auto add_plain = [&](const char* key, const auto& reading) {
    add(key, reading, or_null(reading.value));
  };
  add_plain("mig", device.mig);
  add_plain("utilization_percent", device.utilization_percent);
  add("memory", device.memory, memory_json(device.memory.value));
  add_plain("temperature_c", device.temperature_c);
  add_plain("power_w", device.power_w);
  add_plain("power_limit_w", device.power_limit_w);
  add_plain("ecc_errors", device.ecc_errors);
  add_plain("compute_mode", device.compute_mode);
  for (const MigInstance& instance : device.instances) instances.push_back(instance_json(instance));
  for (const DeviceProcess& process : device.processes) {
    processes.push_back(device_process_json(process));
    if (!process.memory.value) missing["processes.memory_bytes"] = process.memory.why;
  }
  if (!device.processes_why.empty()) missing["processes"] = device.processes_why;
  json["instances"] = std::move(instances);
  json["processes"] = std::move(processes);
  json["missing"] = std::move(missing);
  return json;
}

Json pressure_json(const std::optional<Pressure>& pressure) {
  if (!pressure) return {};
  return {{"some_10s", pressure->some_10s},
          {"some_60s", pressure->some_60s},
          {"some_300s", pressure->some_300s},
          {"full_10s", or_null(pressure->full_10s)},
          {"full_60s", or_null(pressure->full_60s)},
          {"full_300s", or_null(pressure->full_300s)}};
}

Json host_json(const HostStatus& host) {
  Json group;
  if (host.cgroup) {
    group = {{"path", host.cgroup->group},
             {"used_bytes", host.cgroup->used_bytes},
             {"cache_bytes", host.cgroup->cache_bytes},
             {"limit_bytes", or_null(host.cgroup->limit_bytes)}};
  }
  return {{"name", host.name},
          {"total_bytes", host.total_bytes},
          {"available_bytes", host.available_bytes},
          {"swap_total_bytes", host.swap_total_bytes},
          {"swap_used_bytes", host.swap_used_bytes},
          {"cores", host.cores},
          {"load_1m", or_null(host.load_1m)},
          {"oom_kills", or_null(host.oom_kills)},
          {"cgroup", std::move(group)},
          {"pressure_of", host.pressure_is_group ? "group" : "machine"},
          {"memory_pressure", pressure_json(host.memory_pressure)},
          {"cpu_pressure", pressure_json(host.cpu_pressure)},
          {"io_pressure", pressure_json(host.io_pressure)}};
}

}  // namespace

Json to_json(const diagnose::MachineStatus& status) {
  Json devices = Json::array(), unlisted = Json::array(), processes = Json::array();
  for (const DeviceStatus& device : status.devices) devices.push_back(device_json(device));
  for (const HostProcess& process : status.unlisted) unlisted.push_back(host_process_json(process));
  for (const HostProcess& process : status.processes)
    processes.push_back(host_process_json(process));
  return {{"version", kFormatVersion},
          {"unix_s", status.unix_s},
          {"driver",
           {{"state", driver_word(status.driver.kind)},
            {"version", text_or_null(status.driver.version)},
            {"cuda", text_or_null(status.driver.cuda)},
            {"problem", text_or_null(status.driver.problem)},
            {"hint", text_or_null(status.driver.hint)},
            {"error", text_or_null(status.driver.error_row)}}},
          {"devices", std::move(devices)},
          {"foreign_pids", status.has_foreign_pids},
          {"unlisted", std::move(unlisted)},
          {"host", host_json(status.host)},
          {"processes", std::move(processes)},
          {"status_files",
           {{"live", status.published.states.size()},
            {"dead", status.published.dead},
            {"elsewhere", status.published.elsewhere},
            {"unreadable", status.published.unreadable},
            {"refused", text_or_null(status.published.refused)}}}};
}

}  // namespace muster::cli
