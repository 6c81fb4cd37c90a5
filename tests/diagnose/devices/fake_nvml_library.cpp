// A libnvidia-ml.so of our own, whose devices a file of JSON describes: FAKE_NVML_SCENARIO names it.
// It is read anew at each nvmlDeviceGetCount, so that a test can change it between two readings.
//
//   {"init": 0, "count": 0, "driver": "550.54.15", "cuda": 12040,
//    "block": {"nvmlDeviceGetPowerUsage": "FIFO"},     comes back when somebody opens that for writing
//    "devices": [{"name": "NVIDIA A100", "uuid": "GPU-a", "bus_id": "00000000:3B:00.0",
//                 "total": 100, "used": 60, "reserved": 5, "utilization": 87, "temperature": 64,
//                 "power_mw": 250000, "limit_mw": 400000, "mode": 0, "ecc": 0,
//                 "errors": {"nvmlDeviceGetTemperature": 3},     codes instead of answers
//                 "lost_after": 4,                               calls that still work, of each reading
//                 "processes": [{"pid": 12, "bytes": 30, "kind": "C", "gi": 1, "ci": 0}],
//                 "mig": [{"name": …, "uuid": …, "total": …, "used": …, "gi": 1, "ci": 0,
//                          "processes": […]}]}]}
// What a device does not name is not supported by it; a process without bytes is Windows's.
// With FAKE_NVML_OLD the functions of newer drivers are not there.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace {

using Json = nlohmann::json;

// Of nvml.h.
enum {
  kOk = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kLost = 15,
  kVersionMismatch = 25
};
struct Memory {
  unsigned long long total, free, used;
};
struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process1 {
  unsigned pid;
  unsigned long long used;
};
struct Process2 {
  unsigned pid;
  unsigned long long used;
  unsigned gi, ci;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};

constexpr size_t kPerDevice = 1000;  // handles: device 1 is 1000, its instance 2 is 1003

Json scenario;
bool is_started = false;
std::map<size_t, int64_t> calls;  // of each device, in this reading

void read_scenario() {
  const char* path = std::getenv("FAKE_NVML_SCENARIO");
  std::ifstream file(path == nullptr ? "" : path);
  scenario = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!scenario.is_object()) scenario = Json::object();
}

void block_in(const char* name) {
  const Json blocks = scenario.value("block", Json::object());
  if (!blocks.contains(name)) return;
  const int fd = ::open(blocks[name].get<std::string>().c_str(), O_RDONLY);
  if (fd >= 0) ::close(fd);
}

/// The device or instance of a handle, or null.
const Json* at(void* handle, const Json** device = nullptr) {
  const auto number = reinterpret_cast<size_t>(handle);
  const Json& devices = scenario["devices"];
  if (number < kPerDevice || number / kPerDevice - 1 >= devices.size()) return nullptr;
  const Json& one = devices[number / kPerDevice - 1];
  if (device != nullptr) *device = &one;
  const size_t part = number % kPerDevice;
  if (part == 0) return &one;
  return one.contains("mig") && part <= one["mig"].size() ? &one["mig"][part - 1] : nullptr;
}

/// What every call of a device begins with; kOk: go on.
int begin(void* handle, const char* name, const Json*& what) {
  block_in(name);
  if (!is_started) return kUninitialized;
  const Json* device = nullptr;
  what = at(handle, &device);
  if (what == nullptr) return kInvalidArgument;
  const int64_t number = ++calls[reinterpret_cast<size_t>(handle) / kPerDevice];
  if (device->contains("lost_after") && number > (*device)["lost_after"].get<int64_t>())
    return kLost;
  return device->value("errors", Json::object()).value(name, int{kOk});
}

template <class T>
int number(void* handle, const char* name, const char* key, T* to) {
  const Json* what = nullptr;
  if (const int code = begin(handle, name, what)) return code;
  if (!what->contains(key)) return kNotSupported;
  *to = (*what)[key].get<T>();
  return kOk;
}

int text(const std::string& from, char* to, unsigned size) {
  if (from.size() >= size) return kInsufficientSize;
  std::snprintf(to, size, "%s", from.c_str());
  return kOk;
}

int text_of(void* handle, const char* name, const char* key, char* to, unsigned size) {
  std::string value;
  if (const int code = number(handle, name, key, &value)) return code;
  return text(value, to, size);
}

template <class Process>
int processes(void* handle,
              const char* name,
              const std::string& kind,
              unsigned* count,
              Process* to,
              void (*set)(Process&, const Json&)) {
  const Json* what = nullptr;
  if (const int code = begin(handle, name, what)) return code;
  std::vector<Json> found;
  for (const Json& one : what->value("processes", Json::array())) {
    if (one.value("kind", "C").find(kind) != std::string::npos) found.push_back(one);
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (room < found.size()) return kInsufficientSize;
  for (size_t i = 0; i < found.size(); ++i) set(to[i], found[i]);
  return kOk;
}

unsigned long long bytes_of(const Json& process) {
  return process.contains("bytes") ? process["bytes"].get<unsigned long long>() : ~0ULL;
}

void set1(Process1& to, const Json& from) { to = {from["pid"].get<unsigned>(), bytes_of(from)}; }

[[maybe_unused]] void set2(Process2& to, const Json& from) {
  to = {from["pid"].get<unsigned>(), bytes_of(from), from.value("gi", ~0U), from.value("ci", ~0U)};
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  read_scenario();
  block_in("nvmlInit_v2");
  const int code = scenario.value("init", int{kOk});
  is_started = code == kOk;
  return code;
}
int nvmlShutdown() {
  block_in("nvmlShutdown");
  is_started = false;
  return kOk;
}
const char* nvmlErrorString(int code) {
  return code == 999 ? "Unknown Error" : "words of the library";
}
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return text(scenario.value("driver", "1.0"), to, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (!scenario.contains("cuda")) return kNotSupported;
  *version = scenario["cuda"].get<int>();
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  if (!is_started) return kUninitialized;
  read_scenario();
  calls.clear();
  block_in("nvmlDeviceGetCount_v2");
  if (const int code = scenario.value("count", int{kOk})) {
    is_started = code != kUninitialized;
    return code;
  }
  *count = static_cast<unsigned>(scenario["devices"].size());
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  void* wanted = reinterpret_cast<void*>((index + 1) * kPerDevice);
  const Json* what = nullptr;
  const int code = begin(wanted, "nvmlDeviceGetHandleByIndex_v2", what);
  if (code == kOk) *handle = wanted;
  return code;
}
int nvmlDeviceGetName(void* handle, char* to, unsigned size) {
  return text_of(handle, "nvmlDeviceGetName", "name", to, size);
}
int nvmlDeviceGetUUID(void* handle, char* to, unsigned size) {
  return text_of(handle, "nvmlDeviceGetUUID", "uuid", to, size);
}
int nvmlDeviceGetPciInfo_v3(void* handle, Pci* to) {
  *to = {};
  return text_of(handle, "nvmlDeviceGetPciInfo_v3", "bus_id", to->bus_id, sizeof to->bus_id);
}
int nvmlDeviceGetMemoryInfo(void* handle, Memory* to) {
  unsigned long long total = 0, used = 0;
  if (const int code = number(handle, "nvmlDeviceGetMemoryInfo", "total", &total)) return code;
  if (const int code = number(handle, "nvmlDeviceGetMemoryInfo", "used", &used)) return code;
  const auto reserved = at(handle)->value("reserved", 0ULL);
  *to = {total, total - used - reserved, used + reserved};
  return kOk;
}
int nvmlDeviceGetUtilizationRates(void* handle, Utilization* to) {
  to->memory = 0;
  return number(handle, "nvmlDeviceGetUtilizationRates", "utilization", &to->gpu);
}
int nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* to) {
  if (sensor != 0) return kInvalidArgument;
  return number(handle, "nvmlDeviceGetTemperature", "temperature", to);
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* to) {
  return number(handle, "nvmlDeviceGetPowerUsage", "power_mw", to);
}
int nvmlDeviceGetEnforcedPowerLimit(void* handle, unsigned* to) {
  return number(handle, "nvmlDeviceGetEnforcedPowerLimit", "limit_mw", to);
}
int nvmlDeviceGetComputeMode(void* handle, int* to) {
  return number(handle, "nvmlDeviceGetComputeMode", "mode", to);
}
int nvmlDeviceGetTotalEccErrors(void* handle, int kind, int counter, unsigned long long* to) {
  if (kind != 1 || counter != 0) return kInvalidArgument;
  return number(handle, "nvmlDeviceGetTotalEccErrors", "ecc", to);
}
int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, Process1* to) {
  return processes(handle, "nvmlDeviceGetComputeRunningProcesses", "C", count, to, &set1);
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo_v2(void* handle, Memory2* to) {
  if (to->version != (sizeof(Memory2) | 2U << 24)) return kVersionMismatch;
  unsigned long long total = 0, used = 0;
  if (const int code = number(handle, "nvmlDeviceGetMemoryInfo_v2", "total", &total)) return code;
  if (const int code = number(handle, "nvmlDeviceGetMemoryInfo_v2", "used", &used)) return code;
  const auto reserved = at(handle)->value("reserved", 0ULL);
  *to = {to->version, total, reserved, total - used - reserved, used};
  return kOk;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, Process2* to) {
  return processes(handle, "nvmlDeviceGetComputeRunningProcesses_v3", "C", count, to, &set2);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void* handle, unsigned* count, Process2* to) {
  return processes(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", "G", count, to, &set2);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* handle, unsigned* count, Process2* to) {
  return processes(handle, "nvmlDeviceGetMPSComputeRunningProcesses_v3", "M", count, to, &set2);
}
int nvmlDeviceGetMigMode(void* handle, unsigned* now, unsigned* later) {
  const Json* what = nullptr;
  if (const int code = begin(handle, "nvmlDeviceGetMigMode", what)) return code;
  *now = *later = what->contains("mig") ? 1 : 0;
  return kOk;
}
int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* to) {
  const Json* what = nullptr;
  if (const int code = begin(handle, "nvmlDeviceGetMaxMigDeviceCount", what)) return code;
  *to = 7;
  return kOk;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, void** to) {
  const Json* what = nullptr;
  if (const int code = begin(handle, "nvmlDeviceGetMigDeviceHandleByIndex", what)) return code;
  if (index >= (*what)["mig"].size()) return kNotFound;
  *to = reinterpret_cast<void*>(reinterpret_cast<size_t>(handle) + index + 1);
  return kOk;
}
int nvmlDeviceGetGpuInstanceId(void* handle, unsigned* to) {
  return number(handle, "nvmlDeviceGetGpuInstanceId", "gi", to);
}
int nvmlDeviceGetComputeInstanceId(void* handle, unsigned* to) {
  return number(handle, "nvmlDeviceGetComputeInstanceId", "ci", to);
}
#endif
}
