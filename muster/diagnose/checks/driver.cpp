// NVIDIA's driver: its module, its library, its device files.
#include <algorithm>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"
#include "muster/diagnose/surroundings/nvidia.h"

namespace muster::diagnose {
namespace {

CheckResult no_module(const Surroundings& surroundings) {
  CheckResult result{.name = "driver",
                     .value = "no NVIDIA driver is loaded: programs run on the CPU",
                     .rule = "a driver where there is a device"};
  if (surroundings.has("/dev/dxg")) {
    result.value = "WSL: the driver is Windows's";
  } else if (nvidia_device_files(surroundings) > 0) {
    result.verdict = Verdict::kFail;
    result.value = "there are /dev/nvidia* files, but the kernel module is not loaded";
    result.hint = "modprobe nvidia; look for its errors in dmesg";
  }
  return result;
}

CheckResult versions(const Surroundings& surroundings, const std::string& module) {
  CheckResult result{.name = "driver", .rule = "module and libraries are of one version"};
  const auto library = nvidia_library_version(surroundings, "libcuda.so");
  const auto nvml = nvidia_library_version(surroundings, "libnvidia-ml.so");
  result.value = concat("module ",
                        module,
                        ", libcuda ",
                        library.value_or("not found"),
                        ", libnvidia-ml ",
                        nvml.value_or("not found"));
  if (!library) {
    result.verdict = Verdict::kFail;
    result.hint = surroundings.has("/.dockerenv")
                      ? "start the container with --gpus all (nvidia-container-toolkit)"
                      : "install the driver's libraries of this version, or name their folder in "
                        "LD_LIBRARY_PATH";
  } else if (*library != module || (nvml && *nvml != module)) {
    result.verdict = Verdict::kFail;
    result.hint = "the driver was upgraded: reboot, or load its module again";
  }
  return result;
}

CheckResult device_files(const Surroundings& surroundings) {
  const int64_t count = nvidia_device_files(surroundings);
  CheckResult result{.name = "driver.devices",
                     .value = concat(count, count == 1 ? " device file" : " device files"),
                     .rule = "/dev/nvidia0 …, /dev/nvidiactl and /dev/nvidia-uvm"};
  const char* missing = count == 0                             ? "/dev/nvidia0"
                        : !surroundings.has("/dev/nvidiactl")  ? "/dev/nvidiactl"
                        : !surroundings.has("/dev/nvidia-uvm") ? "/dev/nvidia-uvm"
                                                               : nullptr;
  if (missing != nullptr) {
    result.verdict = Verdict::kFail;
    result.value += concat(", no ", missing);
    result.hint = "in a container: --gpus all; else `nvidia-modprobe -u -c 0`";
  }
  return result;
}

/// Devices behind an NVSwitch do not start without the fabric manager.
void add_fabric(const Surroundings& surroundings, std::vector<CheckResult>& results) {
  if (!surroundings.has("/dev/nvidia-nvswitch0") && !surroundings.has("/dev/nvidia-nvswitchctl"))
    return;
  const auto names = surroundings.names_in("/proc");
  const bool runs = std::ranges::any_of(names, [&](const std::string& pid) {
    return to_int(pid) &&  // a comm has 15 letters
           trim(surroundings.file(concat("/proc/", pid, "/comm")).value_or("")) ==
               "nv-fabricmanage";
  });
  results.push_back({.name = "driver.fabric",
                     .verdict = runs ? Verdict::kOk : Verdict::kWarn,
                     .value = runs ? "NVSwitch, its fabric manager runs"
                                   : "NVSwitch, but no fabric manager is to be seen here",
                     .rule = "nv-fabricmanager runs, of the driver's version",
                     .hint = runs ? "" : "systemctl status nvidia-fabricmanager, on the host"});
}

std::vector<CheckResult> run_driver(const Surroundings& surroundings) {
  const auto module = nvidia_module_version(surroundings);
  if (!module) return {no_module(surroundings)};
  std::vector<CheckResult> results{versions(surroundings, *module), device_files(surroundings)};
  add_fabric(surroundings, results);
  return results;
}

}  // namespace

extern constinit const CheckEntry driver_entry{
    "driver", "NVIDIA's driver: module, libraries, device files", &run_driver};

}  // namespace muster::diagnose
