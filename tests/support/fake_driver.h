// A driver with made-up devices: tests/diagnose/devices/fake_nvml_library.cpp, and its scenarios.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace muster::test {

inline constexpr uint64_t kFakeGiB = 1ULL << 30;

/// A whole device of 40 GiB, of which 30 are used and 0.5 the driver's.
inline Json fake_device(int index, Json processes = Json::array()) {
  return {{"name", "NVIDIA A100-SXM4-40GB"},
          {"uuid", concat("GPU-0000000", index)},
          {"bus_id", concat("00000000:3", index, ":00.0")},
          {"total", 40 * kFakeGiB},
          {"used", 30 * kFakeGiB},
          {"reserved", kFakeGiB / 2},
          {"utilization", 87},
          {"temperature", 64},
          {"power_mw", 312400},
          {"limit_mw", 400000},
          {"mode", 0},
          {"ecc", 0},
          {"processes", std::move(processes)}};
}

/// One under MIG with two instances of 20 GiB, 5 and 1 used; `processes` are of the first.
inline Json fake_mig_device(int index, Json processes = Json::array()) {
  Json device = fake_device(index);
  device["errors"] = {{"nvmlDeviceGetUtilizationRates", 3}};
  device["mig"] = {{{"name", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"},
                    {"uuid", concat("MIG-", index, "a")},
                    {"total", 20 * kFakeGiB},
                    {"used", 5 * kFakeGiB},
                    {"gi", 1},
                    {"ci", 0},
                    {"processes", std::move(processes)}},
                   {{"name", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"},
                    {"uuid", concat("MIG-", index, "b")},
                    {"total", 20 * kFakeGiB},
                    {"used", kFakeGiB},
                    {"gi", 2},
                    {"ci", 0}}};
  return device;
}

class FakeDriver {
 public:
  explicit FakeDriver(Json devices = Json::array()) {
    scenario["driver"] = "550.54.15";
    scenario["cuda"] = 12040;
    scenario["devices"] = std::move(devices);
    write();
    ::setenv("FAKE_NVML_SCENARIO", file().c_str(), 1);
  }
  ~FakeDriver() { ::unsetenv("FAKE_NVML_SCENARIO"); }

  /// After a change of `scenario`.
  void write() const { write_file_atomic(file(), json_text(scenario)); }

  static std::string library() { return program_path("../lib/libmuster_fake_devices.so"); }
  static std::string old_library() { return program_path("../lib/libmuster_fake_devices_old.so"); }

  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path file() const { return folder() / "scenario.json"; }
  /// For a process under test: its driver, and a folder of status files of its own.
  std::vector<std::string> environment() const {
    return {"MUSTER_NVML_LIBRARY=" + library(),
            "FAKE_NVML_SCENARIO=" + file().string(),
            "MUSTER_STATUS_DIR=" + (folder() / "status").string()};
  }

  Json scenario;

 private:
  Folder folder_;
};

}  // namespace muster::test
