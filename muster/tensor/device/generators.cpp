#include "muster/tensor/device/generators.h"

#include <mutex>
#include <utility>

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

GeneratorAsItWas::GeneratorAsItWas(at::Generator generator) : generator_(std::move(generator)) {
  if (!generator_.defined()) return;
  const std::lock_guard lock(generator_.mutex());
  state_ = generator_.get_state();
}

GeneratorAsItWas::~GeneratorAsItWas() {
  if (!generator_.defined()) return;
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(state_);
}

}  // namespace muster::tensor
