// Which devices are free, and GPUtil's table, against GPUtil.
#include "muster/diagnose/devices/available_devices.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/support/golden.h"

namespace muster::diagnose {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// index, percent, MiB in all, used, free; null: unknown.
DeviceStatus device_of(const Json& line) {
  DeviceStatus device{.index = line[0].get<int64_t>()};
  device.uuid = "GPU-" + std::to_string(device.index);
  if (!line[1].is_null()) device.utilization_percent.value = line[1].get<double>();
  if (!line[2].is_null()) {
    device.memory.value = MemoryUse{.total_bytes = line[2].get<uint64_t>() << 20,
                                    .used_bytes = line[3].get<uint64_t>() << 20,
                                    .free_bytes = line[4].get<uint64_t>() << 20};
  }
  return device;
}

std::vector<DeviceStatus> devices_of(const Json& lines) {
  std::vector<DeviceStatus> devices;
  for (const Json& line : lines) devices.push_back(device_of(line));
  return devices;
}

AvailableOptions options_of(const Json& asked) {
  AvailableOptions options;
  const std::vector<std::string> orders{"first", "last", "random", "load", "memory"};
  if (asked.contains("order"))
    options.order = static_cast<DeviceOrder>(
        std::ranges::find(orders, asked["order"].get<std::string>()) - orders.begin());
  options.limit = asked.value("limit", options.limit);
  options.max_load = asked.value("maxLoad", options.max_load);
  options.max_memory = asked.value("maxMemory", options.max_memory);
  options.min_free_bytes = asked.value("memoryFree", uint64_t{0}) << 20;
  options.include_unknown = asked.value("includeNan", false);
  options.exclude = asked.value("excludeID", std::vector<int64_t>());
  options.exclude_uuids = asked.value("excludeUUID", std::vector<std::string>());
  return options;
}

TEST(AvailableDevices, AreThoseThatGputilChoosesInItsOrder) {
  const Json golden = test::read_golden("gputil");
  for (const auto& [name, machine] : golden["machines"].items()) {
    const auto devices = devices_of(machine["devices"]);
    for (size_t i = 0; i < golden["asked"].size(); ++i) {
      EXPECT_EQ(available_devices(devices, options_of(golden["asked"][i])),
                machine["getAvailable"][i].get<std::vector<int64_t>>())
          << name << ": " << golden["asked"][i].dump();
    }
  }
}

TEST(AvailableDevices, TheTableIsGputilsLetterByLetter) {
  const Json golden = test::read_golden("gputil");
  for (const auto& [name, machine] : golden["machines"].items()) {
    EXPECT_EQ(utilization_table(devices_of(machine["devices"])),
              machine["showUtilization"].get<std::string>())
        << name;
  }
}

TEST(AvailableDevices, ARandomOrderGoesByItsSeedAndLosesNone) {
  std::vector<DeviceStatus> devices;
  for (int64_t i = 0; i < 3; ++i) devices.push_back(device_of(Json::array({i, 0, 1000, 0, 1000})));
  std::vector<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const AvailableOptions options{.order = DeviceOrder::kRandom, .limit = 3, .seed = seed};
    const auto chosen = available_devices(devices, options);
    EXPECT_EQ(chosen, available_devices(devices, options));
    EXPECT_THAT(chosen, UnorderedElementsAre(0, 1, 2));
    if (std::ranges::find(seen, chosen) == seen.end()) seen.push_back(chosen);
  }
  EXPECT_EQ(seen.size(), 6U) << "all orders of three";
}

TEST(AvailableDevices, ALostDeviceIsNoneWhateverIsAsked) {
  std::vector<DeviceStatus> devices{device_of(Json::array({0, 0, 1000, 0, 1000})),
                                    device_of(Json::array({1, 0, 1000, 0, 1000}))};
  devices[0].fault = "device 0 is lost";
  const AvailableOptions all{.limit = 9, .max_load = 2, .max_memory = 2, .include_unknown = true};
  EXPECT_THAT(available_devices(devices, all), ElementsAre(1));
  EXPECT_THAT(available_devices(std::span<const DeviceStatus>(), all), IsEmpty());
}

}  // namespace
}  // namespace muster::diagnose
