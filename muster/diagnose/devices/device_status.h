// What the devices of this machine do, and who uses them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/devices/process_facts.h"
#include "muster/diagnose/devices/published_state.h"

namespace muster::diagnose {

/// What was read, or a few words that say why it could not be: "not available under MIG".
template <class T>
struct Reading {
  std::optional<T> value = std::nullopt;
  std::string why = {};  ///< empty with a value
};

struct MemoryUse {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;      ///< by all processes; without what the driver keeps for itself
  uint64_t free_bytes = 0;      ///< total - used - reserved
  uint64_t reserved_bytes = 0;  ///< by the driver; 0 where an old one counts them as used
};

/// Where the process is that the driver names.
enum class Whereabouts {
  kHere,       ///< its /proc is to be read
  kGone,       ///< ended since, or hidden from this user
  kElsewhere,  ///< the number is the host's, and this is a container: who it is cannot be told
};

/// "here", "gone" or "elsewhere".
std::string_view whereabouts_word(Whereabouts where);

/// A process as the driver lists it on a device.
struct DeviceProcess {
  int64_t pid = 0;           ///< as the driver says it: in a container mostly the host's
  std::string kind;          ///< "C" compute, "G" graphics, "M" by MPS, or several: "C+G"
  Reading<uint64_t> memory;  ///< bytes of the device
  std::optional<unsigned> gpu_instance = std::nullopt, compute_instance = std::nullopt;  ///< of MIG
  Whereabouts where = Whereabouts::kGone;
  std::optional<ProcessFacts> facts = std::nullopt;         ///< of kHere
  std::optional<PublishedState> published = std::nullopt;   ///< what it says of itself
  std::optional<PublishedDevice> allocator = std::nullopt;  ///< of that, this device
};

/// A part of a device under MIG.
struct MigInstance {
  int64_t index = 0;  ///< device 1, index 0: nvidia-smi's "MIG 0" of "GPU 1"
  std::string name, uuid;
  std::optional<unsigned> gpu_instance = std::nullopt, compute_instance = std::nullopt;
  Reading<MemoryUse> memory;
};

struct DeviceStatus {
  int64_t index = 0;  ///< the driver's, in the order of the bus; CUDA's may be another
  std::string name, uuid, bus_id;
  std::string fault = {};      ///< a sentence if the device is lost or needs a reset; else empty
  std::string fault_row = {};  ///< of the catalogue of errors
  Reading<bool> mig;
  Reading<double> utilization_percent;  ///< share of time in which some kernel ran
  Reading<MemoryUse> memory;
  Reading<double> temperature_c, power_w, power_limit_w;
  Reading<uint64_t> ecc_errors;        ///< not corrected, since the driver was loaded
  Reading<std::string> compute_mode;   ///< "default", "exclusive-process", "prohibited"
  std::vector<MigInstance> instances;  ///< empty without MIG
  std::vector<DeviceProcess> processes;
  std::string processes_why = {};  ///< why there is no list

  bool is_mig() const { return mig.value.value_or(false); }
  /// Used of total, in [0, 1]; nothing if unknown or there is no memory.
  std::optional<double> memory_share() const;
};

struct DriverStatus {
  enum Kind { kReady, kAbsent, kFailed } kind = kAbsent;
  std::string version = {};    ///< "550.54.15"
  std::string cuda = {};       ///< "12.4", the newest that it can
  std::string problem = {};    ///< a sentence, unless kReady
  std::string hint = {};       ///< the next step, of kFailed
  std::string error_row = {};  ///< of the catalogue of errors, if it has one
};

/// "ready", "absent" or "failed".
std::string_view driver_word(DriverStatus::Kind kind);

}  // namespace muster::diagnose
