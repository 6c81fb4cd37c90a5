#include "muster/diagnose/devices/device_reader.h"

#include <algorithm>
#include <array>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/nvidia.h"

namespace muster::diagnose {
namespace {

constexpr size_t kNvmlTextBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, …UUID_V2…
constexpr int kListTries = 5;          // processes may come between a count and its list
constexpr int kUncorrected = 1, kSinceLoaded = 0, kSensorGpu = 0;
constexpr const char* kNotUnderMig = "not available under MIG";
constexpr const char* kListNames[] = {"nvmlDeviceGetComputeRunningProcesses",
                                      "nvmlDeviceGetGraphicsRunningProcesses",
                                      "nvmlDeviceGetMPSComputeRunningProcesses"};
constexpr const char* kListWords[] = {"C", "G", "M"};
constexpr unsigned kNoInstance = ~0U;  // of a process on a device that is whole

std::string mode_word(int mode) {
  constexpr const char* kModes[] = {
      "default", "exclusive-thread", "prohibited", "exclusive-process"};
  return mode >= 0 && mode < 4 ? kModes[mode] : concat("mode ", mode);
}

}  // namespace

DriverStatus driver_not_loaded(const Surroundings& surroundings,
                               const std::string& path,
                               const std::string& why,
                               bool is_absent) {
  const auto module = nvidia_module_version(surroundings);
  const bool is_usual = path == kNvmlName;
  if (is_absent && is_usual && !module)
    return {.kind = DriverStatus::kAbsent, .problem = "no NVIDIA driver is installed here"};
  DriverStatus status{.kind = DriverStatus::kFailed};
  if (is_absent && is_usual) {
    status.problem =
        concat("the kernel module ", *module, " is loaded, but ", path, " is not found");
    status.hint = surroundings.has("/.dockerenv")
                      ? "start the container with --gpus all (nvidia-container-toolkit)"
                      : "install the driver's libraries of this version, or name their folder in "
                        "LD_LIBRARY_PATH";
    status.error_row = "no-device";
    return status;
  }
  status.problem = concat("the driver's library cannot be loaded: ", why);
  status.hint = is_usual ? "install the driver's libraries of the module's version"
                         : concat(kNvmlVariable, " names it");
  return status;
}

DriverStatus driver_problem(int code, const std::string& text) {
  DriverStatus status{.kind = DriverStatus::kFailed};
  switch (code) {
    case kNvmlVersionMismatch:
      status.problem = "the driver's library and its kernel module are of different versions";
      status.hint = "the driver was upgraded: reboot, or load its module again";
      status.error_row = "driver-library-mismatch";
      return status;
    case kNvmlDriverNotLoaded:
      status.problem = "NVIDIA's library is here, but the driver's kernel module is not loaded";
      status.hint = "modprobe nvidia; look for its errors in dmesg";
      status.error_row = "no-device";
      return status;
    case kNvmlNoPermission:
      status.problem = "this user may not ask the driver";
      status.hint =
          "see who may open /dev/nvidiactl and /dev/nvidia0 (`ls -l /dev/nvidia*`); in a "
          "container: --gpus all";
      status.error_row = "no-device";
      return status;
    case kNvmlLibraryNotFound:
      status.problem = "a library of the driver that NVML needs is not found";
      status.hint = "install the driver's libraries, all of one version";
      status.error_row = "no-device";
      return status;
    case kNvmlLost:
    case kNvmlResetRequired:
      status.problem = "the driver does not start, as a device is lost or needs a reset";
      status.hint = "reboot; if it comes again, the card or its slot is to be changed";
      status.error_row = "device-fault";
      return status;
    case kNvmlTimeout:
    case kNvmlOperatingSystem:
    default:
      status.problem = concat("the driver does not answer: ", text, " (NVML ", code, ")");
      status.hint = "`muster doctor --checks driver`; dmesg has the kernel's words";
      return status;
  }
}

std::string device_fault(int code, int64_t index) {
  if (code == kNvmlLost)
    return concat("device ", index, " is lost: it does not answer on the bus any more");
  if (code == kNvmlResetRequired) return concat("device ", index, " needs a reset");
  return "";
}

/// Of a reading: why there is none.
std::string DeviceQuestions::why(int code) const {
  switch (code) {
    case kNvmlNotSupported:
      return "not supported by this device";
    case kNvmlNoPermission:
      return "no permission";
    case kNvmlLost:
      return "the device is lost";
    case kNvmlResetRequired:
      return "the device needs a reset";
    case kNvmlFunctionNotFound:
      return "the driver is too old";
    case kNvmlTimeout:
      return "the device does not answer in time";
    default:
      return nvml_.error_text(code);
  }
}

std::string DeviceQuestions::text_of(const char* name,
                                     int (*function)(NvmlHandle, char*, unsigned),
                                     NvmlHandle handle) {
  std::array<char, kNvmlTextBytes> text{};
  const auto size = static_cast<unsigned>(text.size());
  if (call(name, function, handle, text.data(), size) != kNvmlOk) return "";
  text.back() = '\0';
  return text.data();
}

/// By the newer call, as nvidia-smi has it: there what the driver keeps is not used memory.
Reading<MemoryUse> DeviceQuestions::memory_of(NvmlHandle handle) {
  const NvmlFunctions& f = nvml_.functions();
  NvmlMemory2 two{.version = kNvmlMemory2Version, .total = 0, .reserved = 0, .free = 0, .used = 0};
  int code = call("nvmlDeviceGetMemoryInfo_v2", f.memory2, handle, &two);
  if (code == kNvmlOk) {
    return {MemoryUse{.total_bytes = two.total,
                      .used_bytes = two.used,
                      .free_bytes = two.free,
                      .reserved_bytes = two.reserved}};
  }
  NvmlMemory one{};
  code = call("nvmlDeviceGetMemoryInfo", f.memory, handle, &one);
  if (code != kNvmlOk) return {{}, why(code)};
  return {MemoryUse{.total_bytes = one.total, .used_bytes = one.used, .free_bytes = one.free}};
}

Reading<double> DeviceQuestions::number_of(const char* name,
                                           int (*function)(NvmlHandle, unsigned*),
                                           double scale) {
  unsigned value = 0;
  const int code = call(name, function, handle_, &value);
  if (code != kNvmlOk) return {{}, why(code)};
  return {value * scale};
}

void DeviceQuestions::ask_mig() {
  unsigned now = 0, later = 0;
  const int code = call("nvmlDeviceGetMigMode", nvml_.functions().mig_mode, handle_, &now, &later);
  // Devices before Ampere know nothing of it, and older drivers neither.
  if (code == kNvmlOk || code == kNvmlNotSupported || code == kNvmlFunctionNotFound)
    status_.mig.value = code == kNvmlOk && now == 1;
  else
    status_.mig.why = why(code);
}

void DeviceQuestions::ask_instances() {
  const NvmlFunctions& f = nvml_.functions();
  unsigned most = 0;
  if (call("nvmlDeviceGetMaxMigDeviceCount", f.mig_count, handle_, &most) != kNvmlOk) return;
  for (unsigned i = 0; i < most; ++i) {
    NvmlHandle handle = nullptr;
    if (call("nvmlDeviceGetMigDeviceHandleByIndex", f.mig_handle, handle_, i, &handle) != kNvmlOk)
      continue;  // a place where none is
    MigInstance instance{.index = i,
                         .name = text_of("nvmlDeviceGetName", f.name, handle),
                         .uuid = text_of("nvmlDeviceGetUUID", f.uuid, handle)};
    unsigned id = 0;
    if (call("nvmlDeviceGetGpuInstanceId", f.gpu_instance, handle, &id) == kNvmlOk)
      instance.gpu_instance = id;
    if (call("nvmlDeviceGetComputeInstanceId", f.compute_instance, handle, &id) == kNvmlOk)
      instance.compute_instance = id;
    instance.memory = memory_of(handle);
    status_.instances.push_back(std::move(instance));
    instances_.push_back(handle);
  }
}

void DeviceQuestions::ask_numbers() {
  const NvmlFunctions& f = nvml_.functions();
  NvmlUtilization utilization{};
  int code = call("nvmlDeviceGetUtilizationRates", f.utilization, handle_, &utilization);
  if (status_.is_mig())
    status_.utilization_percent.why = kNotUnderMig;  // whatever some drivers say there
  else if (code == kNvmlOk)
    status_.utilization_percent.value = utilization.gpu;
  else
    status_.utilization_percent.why = why(code);
  status_.memory = memory_of(handle_);
  unsigned degrees = 0;
  code = call("nvmlDeviceGetTemperature", f.temperature, handle_, kSensorGpu, &degrees);
  if (code == kNvmlOk)
    status_.temperature_c.value = degrees;
  else
    status_.temperature_c.why = why(code);
  status_.power_w = number_of("nvmlDeviceGetPowerUsage", f.power, 1e-3);
  status_.power_limit_w = number_of("nvmlDeviceGetEnforcedPowerLimit", f.power_limit, 1e-3);
  unsigned long long errors = 0;
  code = call("nvmlDeviceGetTotalEccErrors", f.ecc, handle_, kUncorrected, kSinceLoaded, &errors);
  if (code == kNvmlOk)
    status_.ecc_errors.value = errors;
  else
    status_.ecc_errors.why = why(code);
  int mode = 0;
  code = call("nvmlDeviceGetComputeMode", f.compute_mode, handle_, &mode);
  if (code == kNvmlOk)
    status_.compute_mode.value = mode_word(mode);
  else
    status_.compute_mode.why = why(code);
}

int DeviceQuestions::ask_list(NvmlHandle handle,
                              int kind,
                              std::vector<NvmlProcess2>& out,
                              bool& has_instances) {
  const NvmlFunctions& f = nvml_.functions();
  has_instances = f.processes2[kind] != nullptr;
  std::vector<NvmlProcess1> old;
  unsigned count = 0;
  int code = kNvmlInsufficientSize;
  for (int i = 0; i < kListTries && code == kNvmlInsufficientSize; ++i) {
    const unsigned room = count + 8;
    count = room;
    if (has_instances) {
      out.assign(room, {});
      code = call(kListNames[kind], f.processes2[kind], handle, &count, out.data());
    } else {
      old.assign(room, {});
      code = call(kListNames[kind], f.processes1[kind], handle, &count, old.data());
    }
    if (code == kNvmlOk) count = std::min(count, room);
  }
  if (code != kNvmlOk) count = 0;
  for (size_t i = 0; i < std::min<size_t>(old.size(), count); ++i)
    out.push_back({.pid = old[i].pid,
                   .used = old[i].used,
                   .gpu_instance = kNoInstance,
                   .compute_instance = kNoInstance});
  out.resize(count);
  return code;
}

/// Adds those of a device or of an instance of it; one that is on several lists is one process.
void DeviceQuestions::ask_processes(NvmlHandle handle, const MigInstance* instance) {
  for (int kind = 0; kind < 3; ++kind) {
    std::vector<NvmlProcess2> list;
    bool has_instances = false;
    const int code = ask_list(handle, kind, list, has_instances);
    if (code != kNvmlOk) {
      const bool is_compute = kind == 0;  // the others are not everywhere
      if (is_compute && status_.processes_why.empty()) status_.processes_why = why(code);
      continue;
    }
    has_list_ = has_list_ || kind == 0;
    for (const NvmlProcess2& one : list) {
      DeviceProcess process{.pid = one.pid, .kind = kListWords[kind]};
      if (one.used == kNvmlNotAvailable)
        process.memory.why = "the driver does not tell it (Windows's driver model)";
      else
        process.memory.value = one.used;
      if (instance != nullptr) {
        process.gpu_instance = instance->gpu_instance;
        process.compute_instance = instance->compute_instance;
      } else if (has_instances && one.gpu_instance != kNoInstance && status_.is_mig()) {
        process.gpu_instance = one.gpu_instance;
        process.compute_instance = one.compute_instance;
      }
      const auto same = std::ranges::find_if(status_.processes, [&](const DeviceProcess& other) {
        return other.pid == process.pid && other.gpu_instance == process.gpu_instance &&
               other.compute_instance == process.compute_instance;
      });
      if (same == status_.processes.end()) {
        status_.processes.push_back(std::move(process));
        continue;
      }
      if (same->kind.find(process.kind) == std::string::npos) same->kind += "+" + process.kind;
      if (!same->memory.value) same->memory = process.memory;
    }
  }
}

DeviceStatus DeviceQuestions::ask(int& code) {
  const NvmlFunctions& f = nvml_.functions();
  progress_.device.store(index_, std::memory_order_relaxed);
  status_.index = index_;
  code = call("nvmlDeviceGetHandleByIndex", f.handle, static_cast<unsigned>(index_), &handle_);
  if (code != kNvmlOk) {
    const std::string reason = why(code);
    if (status_.fault.empty()) status_.fault = concat("device ", index_, ": ", reason);
    for (Reading<double>* reading : {&status_.utilization_percent,
                                     &status_.temperature_c,
                                     &status_.power_w,
                                     &status_.power_limit_w})
      reading->why = reason;
    status_.mig.why = status_.memory.why = status_.ecc_errors.why = status_.compute_mode.why =
        status_.processes_why = reason;
  } else {
    status_.name = text_of("nvmlDeviceGetName", f.name, handle_);
    status_.uuid = text_of("nvmlDeviceGetUUID", f.uuid, handle_);
    NvmlPci pci{};
    if (call("nvmlDeviceGetPciInfo_v3", f.pci, handle_, &pci) == kNvmlOk) {
      pci.bus_id[sizeof pci.bus_id - 1] = '\0';
      status_.bus_id = pci.bus_id;
    }
    ask_mig();
    ask_numbers();
    if (status_.is_mig()) ask_instances();
    for (size_t i = 0; i < instances_.size(); ++i)
      ask_processes(instances_[i], &status_.instances[i]);
    ask_processes(handle_, nullptr);
    if (has_list_) status_.processes_why.clear();
  }
  progress_.device.store(-1, std::memory_order_relaxed);
  if (uninitialized_) code = kNvmlUninitialized;
  return std::move(status_);
}

}  // namespace muster::diagnose
