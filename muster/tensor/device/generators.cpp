#include "muster/tensor/device/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

namespace muster::tensor {

at::Generator new_generator(c10::Device device) {
  if (device.is_cpu()) return at::detail::createCPUGenerator();
  return at::globalContext()
      .getAcceleratorHooksInterface(device.type())
      .getNewGenerator(device.index());
}

at::Generator default_generator(c10::Device device) {
  if (device.is_cpu()) return at::detail::getDefaultCPUGenerator();
  return at::globalContext().defaultGenerator(device);
}

}  // namespace muster::tensor
