#include "muster/diagnose/devices/available_devices.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "muster/diagnose/devices/machine_status.h"

namespace muster::diagnose {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double load_of(const DeviceStatus& device) {
  return device.utilization_percent.value ? *device.utilization_percent.value / 100 : kNaN;
}

double memory_of(const DeviceStatus& device) { return device.memory_share().value_or(kNaN); }

bool is_available(const DeviceStatus& device, const AvailableOptions& options) {
  const auto is_below = [&](double value, double most) {
    return value < most || (options.include_unknown && std::isnan(value));
  };
  const auto has = [](const auto& list, const auto& value) {
    return std::ranges::find(list, value) != list.end();
  };
  return device.fault.empty() && device.memory.value &&
         device.memory.value->free_bytes >= options.min_free_bytes &&
         is_below(load_of(device), options.max_load) &&
         is_below(memory_of(device), options.max_memory) && !has(options.exclude, device.index) &&
         !has(options.exclude_uuids, device.uuid);
}

/// Fisher-Yates by draws whose use the standard fixes: std::shuffle differs between libraries.
void shuffle_devices(std::vector<const DeviceStatus*>& devices, uint64_t seed) {
  std::mt19937_64 draws(seed);
  for (size_t i = devices.size(); i > 1; --i) std::swap(devices[i - 1], devices[draws() % i]);
}

void order_devices(std::vector<const DeviceStatus*>& devices, const AvailableOptions& options) {
  const auto by = [&](auto key) {
    std::ranges::stable_sort(devices, {}, [&](const DeviceStatus* device) {
      const double value = key(*device);
      return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
    });
  };
  switch (options.order) {
    case DeviceOrder::kFirst:
      return by([](const DeviceStatus& device) { return static_cast<double>(device.index); });
    case DeviceOrder::kLast:
      return by([](const DeviceStatus& device) { return -static_cast<double>(device.index); });
    case DeviceOrder::kRandom:
      return shuffle_devices(devices, options.seed);
    case DeviceOrder::kLoad:
      return by(&load_of);
    case DeviceOrder::kMemory:
      return by(&memory_of);
  }
}

struct UtilizationColumn {
  std::string header;
  std::vector<std::string> cells;
};

}  // namespace

std::vector<int64_t> available_devices(std::span<const DeviceStatus> devices,
                                       const AvailableOptions& options) {
  std::vector<const DeviceStatus*> left;
  for (const DeviceStatus& device : devices) {
    if (is_available(device, options)) left.push_back(&device);
  }
  order_devices(left, options);
  std::vector<int64_t> indices;
  for (size_t i = 0; i < std::min(options.limit, left.size()); ++i)
    indices.push_back(left[i]->index);
  return indices;
}

std::vector<int64_t> available_devices(const AvailableOptions& options) {
  const MachineStatus status = read_machine({.processes = 0});
  return available_devices(status.devices, options);
}

std::string utilization_table(std::span<const DeviceStatus> devices) {
  const auto percent = [](double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f%%", std::isnan(share) ? kNaN : share * 100);
    return std::string(text);
  };
  std::vector<UtilizationColumn> columns = {{"ID", {}}, {"GPU", {}}, {"MEM", {}}};
  for (const DeviceStatus& device : devices) {
    columns[0].cells.push_back(std::to_string(device.index));
    columns[1].cells.push_back(percent(load_of(device)));
    columns[2].cells.push_back(percent(memory_of(device)));
  }
  std::vector<std::string> lines(devices.size() + 2);
  for (const UtilizationColumn& column : columns) {
    size_t width = column.header.size();
    for (const std::string& cell : column.cells) width = std::max(width, cell.size());
    lines[0] += "| " + column.header + std::string(width - column.header.size(), ' ') + ' ';
    for (size_t i = 0; i < column.cells.size(); ++i)
      lines[i + 2] +=
          "| " + std::string(width - column.cells[i].size(), ' ') + column.cells[i] + ' ';
  }
  for (std::string& line : lines) line += '|';
  lines[1] = std::string(lines[0].size(), '-');
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

}  // namespace muster::diagnose
