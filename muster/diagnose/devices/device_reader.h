// One device, asked through NVML. Private to the room.
#pragma once

#include "muster/diagnose/devices/device_status.h"
#include "muster/diagnose/devices/nvml.h"

namespace muster::diagnose {

inline constexpr const char* kNvmlName = "libnvidia-ml.so.1";
inline constexpr const char* kNvmlVariable = "MUSTER_NVML_LIBRARY";  ///< names another

/// What it means that the library at `path` cannot be loaded; `why` are the loader's words.
DriverStatus driver_not_loaded(const Surroundings& surroundings,
                               const std::string& path,
                               const std::string& why,
                               bool is_absent);

/// What goes wrong with the driver as a whole; `text` are the library's own words for `code`.
DriverStatus driver_problem(int code, const std::string& text);

/// A sentence if the code means that the device itself is gone; else empty.
std::string device_fault(int code, int64_t index);

/// Everything of a device. Processes have no facts yet. `code` is kNvmlUninitialized if the driver
/// has to be started anew.
class DeviceQuestions {
 public:
  DeviceQuestions(const Nvml& nvml, NvmlProgress& progress, int64_t index)
      : nvml_(nvml), progress_(progress), index_(index) {}

  DeviceStatus ask(int& code);

 private:
  template <class... Takes, class... Given>
  int call(const char* name, int (*function)(Takes...), Given... given) {
    const int code = nvml_.call(progress_, name, function, given...);
    if (code == kNvmlUninitialized) uninitialized_ = true;
    if (status_.fault.empty()) {
      status_.fault = device_fault(code, index_);
      if (!status_.fault.empty()) status_.fault_row = "device-fault";
    }
    return code;
  }
  std::string why(int code) const;
  std::string text_of(const char* name, int (*function)(NvmlHandle, char*, unsigned), NvmlHandle);
  Reading<MemoryUse> memory_of(NvmlHandle handle);
  Reading<double> number_of(const char* name, int (*function)(NvmlHandle, unsigned*), double scale);
  void ask_mig();
  void ask_instances();
  void ask_numbers();
  void ask_processes(NvmlHandle handle, const MigInstance* instance);
  int ask_list(NvmlHandle handle, int kind, std::vector<NvmlProcess2>& out, bool& has_instances);

  const Nvml& nvml_;
  NvmlProgress& progress_;
  int64_t index_;
  NvmlHandle handle_ = nullptr;
  std::vector<NvmlHandle> instances_;  // as status_.instances
  bool uninitialized_ = false, has_list_ = false;
  DeviceStatus status_;
};

}  // namespace muster::diagnose
