#include "muster/tune/machine/machine.h"

#include <algorithm>
#include <array>
#include <memory>

#include <dlfcn.h>
#include <sched.h>

#include "muster/base/cgroup.h"
#include "muster/base/host_memory.h"
#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

/// Cores that the scheduler may put this process on; grows the set until the kernel is content.
double allowed_cpus() {
  for (int most = 1024; most <= 1 << 20; most *= 2) {
    const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
    const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(static_cast<size_t>(most)),
                                                             free_set);
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(most));
    if (set && ::sched_getaffinity(0, size, set.get()) == 0)
      return std::max(1, CPU_COUNT_S(size, set.get()));
  }
  return 1;
}

// The parts of nvml.h that are used: its types are pointers, ints and char arrays.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr size_t kUuidBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

std::vector<std::string> nvml_uuids(const std::string& name) {
  const std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL),
      [](void* handle) { return handle == nullptr ? 0 : ::dlclose(handle); });
  if (!library) return {};
  auto* init = symbol<int()>(library.get(), "nvmlInit_v2");
  auto* shutdown = symbol<int()>(library.get(), "nvmlShutdown");
  auto* count = symbol<int(unsigned*)>(library.get(), "nvmlDeviceGetCount_v2");
  auto* handle = symbol<int(unsigned, NvmlDevice*)>(library.get(), "nvmlDeviceGetHandleByIndex_v2");
  auto* uuid = symbol<int(NvmlDevice, char*, unsigned)>(library.get(), "nvmlDeviceGetUUID");
  if (!init || !shutdown || !count || !handle || !uuid || init() != kNvmlSuccess) return {};
  std::vector<std::string> out;
  unsigned devices = 0;
  if (count(&devices) != kNvmlSuccess) devices = 0;
  for (unsigned i = 0; i < devices; ++i) {
    NvmlDevice device = nullptr;
    std::array<char, kUuidBytes> text{};
    if (handle(i, &device) == kNvmlSuccess &&
        uuid(device, text.data(), text.size()) == kNvmlSuccess)
      out.emplace_back(text.data());
  }
  shutdown();
  return out;
}

std::vector<std::string> visible_devices(const std::vector<std::string>& uuids,
                                         std::string_view cuda_visible_devices) {
  std::vector<std::string> out;
  for (const std::string& part : split(cuda_visible_devices, ',')) {
    const std::string_view word = trim(part);
    if (word.starts_with("MIG-")) {
      out.emplace_back(word);
      continue;
    }
    const auto index = to_int(word);
    auto found = uuids.end();
    if (index && *index >= 0 && *index < static_cast<int64_t>(uuids.size())) {
      found = uuids.begin() + *index;
    } else if (!index && word.starts_with("GPU-")) {
      found = std::ranges::find_if(uuids, [&](const auto& uuid) { return uuid.starts_with(word); });
    }
    if (found == uuids.end()) return out;
    if (std::ranges::find(out, *found) != out.end()) return {};  // the runtime then shows none
    out.push_back(*found);
  }
  return out;
}

Machine machine_from(const MachineSources& sources) {
  const std::string meminfo = read_kernel_file(sources.root / "proc/meminfo").value_or("");
  Machine machine{.cpu = allowed_cpus(),
                  .memory_bytes = meminfo_bytes(meminfo, "MemTotal:").value_or(0)};
  if (const auto quota = cgroup_cpus(sources.root)) machine.cpu = std::min(machine.cpu, *quota);
  if (const auto limit = cgroup_memory(sources.root))
    machine.memory_bytes =
        machine.memory_bytes == 0 ? *limit : std::min(machine.memory_bytes, *limit);
  machine.gpus = nvml_uuids(sources.nvml);
  if (const auto visible = sources.environment("CUDA_VISIBLE_DEVICES"))
    machine.gpus = visible_devices(machine.gpus, *visible);
  return machine;
}

Machine this_machine() { return machine_from({}); }

Machine machine_of(const StudySpec& spec) {
  Machine machine = this_machine();
  machine.custom = spec.machine_custom;
  return machine;
}

}  // namespace muster::tune
