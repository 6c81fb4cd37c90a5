// CUDA_VISIBLE_DEVICES, and what it leaves.
#include <algorithm>
#include <set>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"
#include "muster/diagnose/surroundings/nvidia.h"

namespace muster::diagnose {
namespace {

bool is_uuid(std::string_view word) { return word.starts_with("GPU-") || word.starts_with("MIG-"); }

/// What is wrong with the list; empty if nothing is. CUDA hides everything behind the first entry
/// that it does not understand.
/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
std::string fault_of(const std::string& list, int64_t devices) {
  std::set<std::string> before;
  for (const std::string& part : split(list, ',')) {
    const std::string word(trim(part));
    const auto index = to_int(word);
    if (!index && !is_uuid(word)) return concat("\"", word, "\" is neither an index nor a UUID");
    if (index && *index < 0) return concat(word, " hides it and all that follow");
    if (index && devices > 0 && *index >= devices)
      return concat("there is no device ", word, ": 0 to ", devices - 1);
    if (!before.insert(word).second) return concat(word, " stands there twice");
  }
  return "";
}

std::vector<CheckResult> run_visible_devices(const Surroundings& surroundings) {
  const int64_t devices = nvidia_device_files(surroundings);
  const auto list = surroundings.variable("CUDA_VISIBLE_DEVICES");
  CheckResult result{.name = "visible-devices",
                     .value = list ? "CUDA_VISIBLE_DEVICES=" + *list
                                   : "CUDA_VISIBLE_DEVICES is not set: all devices",
                     .rule = "indices or UUIDs of devices that there are, each once"};
  if (!list) return {result};
  if (list->empty()) {
    result.verdict = devices > 0 ? Verdict::kWarn : Verdict::kOk;
    result.value = "CUDA_VISIBLE_DEVICES is empty: no device is seen";
    if (devices > 0) result.hint = "unset it, or name the devices";
    return {result};
  }
  if (const std::string fault = fault_of(*list, devices); !fault.empty()) {
    result.verdict = Verdict::kFail;
    result.hint = fault + "; CUDA sees nothing from there on";
  } else if (list->find_first_not_of("0123456789,") == std::string::npos &&
             surroundings.variable("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" && devices > 1) {
    result.verdict = Verdict::kWarn;
    result.hint =
        "CUDA numbers devices by speed, nvidia-smi by the bus: export CUDA_DEVICE_ORDER=PCI_BUS_ID";
  }
  return {result};
}

}  // namespace

extern constinit const CheckEntry visible_devices_entry{
    "visible-devices", "CUDA_VISIBLE_DEVICES against the devices", &run_visible_devices};

}  // namespace muster::diagnose
