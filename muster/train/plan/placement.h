// Which devices the ranks of this process compute on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/tensor/device/device_kinds.h"

namespace muster::train {

/// What --devices says: how many, or which.
struct DevicesSaid {
  int64_t count = 0;             ///< 0: nothing
  std::vector<int64_t> indices;  ///< of "0,1"; empty: only a number was said
};

/// "", "2" or "0,1". Throws a usage error for another text, and for a number below 1 or above 1024.
DevicesSaid parse_devices(const std::string& text);

struct PlacementRequest {
  std::string device = "auto";  ///< --device
  std::string devices;          ///< --devices
  int64_t threads = 0;          ///< ranks that are threads of this process; 0: it is one rank
  int64_t local_rank = 0;
  int64_t local_world_size = 1;
  const tensor::DeviceKinds& kinds;
};

struct Placement {
  std::vector<c10::Device> devices{c10::kCPU};     ///< one per thread; one if there are none
  std::vector<c10::Device> on_machine{c10::kCPU};  ///< of all ranks of this machine
  std::string why;                   ///< what auto found: "auto; not cuda: …"; empty: asked for
  std::vector<std::string> remarks;  ///< for people
};

/// Opens the kind that is asked for. A rank takes the device of its number on this machine where
/// only a kind is said; what is listed goes by that number, too. `auto` is the first automatic kind
/// that has a device for each rank, else the CPU. Throws a usage error for a device that is not
/// there, an environment error for a kind that this machine or build has not.
Placement place(const PlacementRequest& request);

/// "cpu", "fake:0, fake:1": each once.
std::string names_of(const std::vector<c10::Device>& devices);

}  // namespace muster::train
