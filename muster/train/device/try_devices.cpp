#include "muster/train/device/try_devices.h"

#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

void try_devices(const std::vector<c10::Device>& devices, std::optional<int> rank) {
  for (const c10::Device device : devices) {
    if (device.is_cpu()) continue;
    try {
      // The copy back waits for the device, whose errors come late.
      at::ones({1}, at::device(device)).cpu();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      throw environment_error(
          {.refused = concat(rank ? concat("rank ", *rank, ": ") : "", device, " cannot be used"),
           .rule = first_line(text),
           .hint = "another process may hold it: `muster gpu` shows which; end that one, or take "
                   "another --device"});
    }
  }
}

}  // namespace muster::train
