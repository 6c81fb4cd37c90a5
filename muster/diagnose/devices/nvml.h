// The part of NVIDIA's management library (NVML) that is used: its prototypes, said anew, since no
// package of ours has nvml.h, and the library itself by dlopen. Private to the room.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace muster::diagnose {

// Names, numbers and layouts are those of nvml.h (NVML API Reference; the same in the package
// nvidia-ml-py 13). All functions return an int, 0 for success.
using NvmlHandle = void*;

enum NvmlCode : int {
  kNvmlOk = 0,
  kNvmlUninitialized = 1,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNoPermission = 4,
  kNvmlNotFound = 6,
  kNvmlInsufficientSize = 7,
  kNvmlDriverNotLoaded = 9,
  kNvmlTimeout = 10,
  kNvmlLibraryNotFound = 12,
  kNvmlFunctionNotFound = 13,
  kNvmlLost = 15,
  kNvmlResetRequired = 16,
  kNvmlOperatingSystem = 17,
  kNvmlVersionMismatch = 18,
  kNvmlUnknown = 999,
};

/// Of a process's bytes: nobody knows them (Windows's driver model).
inline constexpr uint64_t kNvmlNotAvailable = ~uint64_t{0};

struct NvmlMemory {
  unsigned long long total, free, used;  // used has what the driver keeps for itself
};
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
inline constexpr unsigned kNvmlMemory2Version = sizeof(NvmlMemory2) | 2U << 24;
struct NvmlUtilization {
  unsigned gpu, memory;  // percent of the last sampling period
};
struct NvmlProcess1 {
  unsigned pid;
  unsigned long long used;
};
struct NvmlProcess2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct NvmlPci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

static_assert(kNvmlMemory2Version == 0x02000028 && sizeof(NvmlProcess1) == 16 &&
              sizeof(NvmlProcess2) == 24 && sizeof(NvmlPci) == 68);

/// What a reader waits for, for whoever waits for the reader: any thread may look.
struct NvmlProgress {
  std::atomic<const char*> call{nullptr};  ///< a function of NVML; null: none
  std::atomic<int64_t> device{-1};         ///< its device; -1: the driver as a whole
};

/// The functions; one that this library does not have is null.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlHandle*) = nullptr;
  int (*name)(NvmlHandle, char*, unsigned) = nullptr;
  int (*uuid)(NvmlHandle, char*, unsigned) = nullptr;
  int (*pci)(NvmlHandle, NvmlPci*) = nullptr;
  int (*memory)(NvmlHandle, NvmlMemory*) = nullptr;
  int (*memory2)(NvmlHandle, NvmlMemory2*) = nullptr;
  int (*utilization)(NvmlHandle, NvmlUtilization*) = nullptr;
  int (*temperature)(NvmlHandle, int, unsigned*) = nullptr;
  int (*power)(NvmlHandle, unsigned*) = nullptr;
  int (*power_limit)(NvmlHandle, unsigned*) = nullptr;
  int (*compute_mode)(NvmlHandle, int*) = nullptr;
  int (*ecc)(NvmlHandle, int, int, unsigned long long*) = nullptr;
  int (*mig_mode)(NvmlHandle, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(NvmlHandle, unsigned*) = nullptr;
  int (*mig_handle)(NvmlHandle, unsigned, NvmlHandle*) = nullptr;
  int (*gpu_instance)(NvmlHandle, unsigned*) = nullptr;
  int (*compute_instance)(NvmlHandle, unsigned*) = nullptr;
  /// Compute, graphics, MPS: with instances, and as older drivers have them.
  int (*processes2[3])(NvmlHandle, unsigned*, NvmlProcess2*) = {};
  int (*processes1[3])(NvmlHandle, unsigned*, NvmlProcess1*) = {};
};

/// A loaded library; it is never unloaded, since the driver may have threads in it. One thread.
class Nvml {
 public:
  /// Null if it cannot be loaded; then `why` has the loader's words, and `is_absent` whether there is
  /// no such file.
  static std::unique_ptr<Nvml> open(const std::string& path, std::string& why, bool& is_absent);

  const NvmlFunctions& functions() const { return functions_; }

  /// Calls a function of the table, kNvmlFunctionNotFound if it is null; `progress` tells of it
  /// meanwhile. Its types are ours, and the library's own have other names, which clang's sanitizer
  /// takes for a wrong call.
  template <class... Takes, class... Given>
#ifdef __clang__
  __attribute__((no_sanitize("function")))
#endif
  int call(NvmlProgress& progress,
           const char* name,
           int (*function)(Takes...),
           Given... given) const {
    if (function == nullptr) return kNvmlFunctionNotFound;
    progress.call.store(name, std::memory_order_relaxed);
    const int code = function(given...);
    progress.call.store(nullptr, std::memory_order_relaxed);
    return code;
  }

  /// The library's words for a code.
  std::string error_text(int code) const;

 private:
  Nvml() = default;
  NvmlFunctions functions_;
};

}  // namespace muster::diagnose
