// What the machine has, and who holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/tune/core/study_spec.h"

namespace muster::tune {

/// What there is to give. Devices by UUID ("GPU-3f…"), in the order of the driver.
struct Machine {
  double cpu = 1;
  uint64_t memory_bytes = 0;
  std::vector<std::string> gpus;
  std::map<std::string, double> custom;
};

/// The cores this process may run on (affinity and cgroup quota), the memory of machine or cgroup,
/// the devices that the driver names (NVML by dlopen; CUDA_VISIBLE_DEVICES narrows them).
Machine this_machine();

/// The same with what the study says of it (StudySpec::machine_custom).
Machine machine_of(const StudySpec& spec);

/// Gives out shares of a machine, counted in thousandths so that shares add up exactly. First fit
/// per device: 8 devices hold 48 trials of 0.15, not 53. One thread.
class ResourcePool {
 public:
  /// Throws a usage error if `per_trial` can never be had ("gpu 2: this machine has 1"), or is
  /// negative, or a gpu amount above 1 that is not whole.
  ResourcePool(Machine machine, Resources per_trial);

  struct Share {
    std::vector<size_t> gpus;  ///< indices into Machine::gpus
  };
  /// A trial's share, or nothing if it does not fit now.
  std::optional<Share> try_acquire();
  void give_back(const Share& share);

  /// "needs 1 gpu, 0 free of 1"; empty if one more fits.
  std::string why_not() const;
  /// "cpu 2/2, gpu 0.5/1" (used/there), only what trials ask for.
  std::string used() const;
  const Machine& machine() const { return machine_; }

 private:
  Machine machine_;
  Resources per_trial_;
  int64_t cpu_used_ = 0, memory_used_ = 0;
  std::vector<int64_t> gpu_used_;
  std::map<std::string, int64_t> custom_used_;
};

}  // namespace muster::tune
