#include "muster/diagnose/devices/nvml.h"

#include <initializer_list>

#include <dlfcn.h>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

template <class Function>
void take_symbol(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(::dlsym(library, name));
}

/// The newest of several names of functions of one type.
template <class Function>
void take_newest(void* library, Function*& to, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (to == nullptr) take_symbol(library, name, to);
  }
}

void take_processes(void* library, NvmlFunctions& to) {
  constexpr const char* kKinds[] = {"Compute", "Graphics", "MPSCompute"};
  for (int kind = 0; kind < 3; ++kind) {
    const std::string name = concat("nvmlDeviceGet", kKinds[kind], "RunningProcesses");
    take_newest(library, to.processes2[kind], {(name + "_v3").c_str(), (name + "_v2").c_str()});
    take_symbol(library, name.c_str(), to.processes1[kind]);
  }
}

NvmlFunctions functions_of(void* library) {
  NvmlFunctions f;
  take_newest(library, f.init, {"nvmlInit_v2", "nvmlInit"});
  take_symbol(library, "nvmlShutdown", f.shutdown);
  take_symbol(library, "nvmlErrorString", f.error_text);
  take_symbol(library, "nvmlSystemGetDriverVersion", f.driver_version);
  take_newest(library,
              f.cuda_version,
              {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  take_newest(library, f.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  take_newest(library, f.handle, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  take_symbol(library, "nvmlDeviceGetName", f.name);
  take_symbol(library, "nvmlDeviceGetUUID", f.uuid);
  take_symbol(library, "nvmlDeviceGetPciInfo_v3", f.pci);
  take_symbol(library, "nvmlDeviceGetMemoryInfo", f.memory);
  take_symbol(library, "nvmlDeviceGetMemoryInfo_v2", f.memory2);
  take_symbol(library, "nvmlDeviceGetUtilizationRates", f.utilization);
  take_symbol(library, "nvmlDeviceGetTemperature", f.temperature);
  take_symbol(library, "nvmlDeviceGetPowerUsage", f.power);
  take_symbol(library, "nvmlDeviceGetEnforcedPowerLimit", f.power_limit);
  take_symbol(library, "nvmlDeviceGetComputeMode", f.compute_mode);
  take_symbol(library, "nvmlDeviceGetTotalEccErrors", f.ecc);
  take_symbol(library, "nvmlDeviceGetMigMode", f.mig_mode);
  take_symbol(library, "nvmlDeviceGetMaxMigDeviceCount", f.mig_count);
  take_symbol(library, "nvmlDeviceGetMigDeviceHandleByIndex", f.mig_handle);
  take_symbol(library, "nvmlDeviceGetGpuInstanceId", f.gpu_instance);
  take_symbol(library, "nvmlDeviceGetComputeInstanceId", f.compute_instance);
  take_processes(library, f);
  return f;
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open(const std::string& path, std::string& why, bool& is_absent) {
  is_absent = false;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = ::dlerror();
    why = text == nullptr ? "dlopen failed" : text;
    // The loader says the same of a library that the asked one needs, beginning with its name.
    is_absent = why.starts_with(path + ":") && why.find("No such file") != std::string::npos;
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->functions_ = functions_of(library);
  const NvmlFunctions& f = nvml->functions_;
  if (f.init == nullptr || f.count == nullptr || f.handle == nullptr) {
    why = concat(path, ": no function nvmlInit_v2, nvmlDeviceGetCount_v2 or …HandleByIndex_v2");
    return nullptr;
  }
  return nvml;
}

std::string Nvml::error_text(int code) const {
  const char* text = functions_.error_text == nullptr ? nullptr : functions_.error_text(code);
  return text == nullptr ? concat("NVML error ", code) : text;
}

}  // namespace muster::diagnose
