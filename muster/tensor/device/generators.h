// Generators of random numbers, of any kind of device.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace muster::tensor {

/// One of its own, which nothing else draws from. Any thread. Throws LibTorch's error for a kind of
/// device that is not open.
at::Generator new_generator(c10::Device device);

/// LibTorch's default one of the device, which all threads share.
at::Generator default_generator(c10::Device device);

/// Puts a generator back to where it was, when this goes. Of an undefined one nothing.
class GeneratorAsItWas {
 public:
  explicit GeneratorAsItWas(at::Generator generator);
  ~GeneratorAsItWas();
  GeneratorAsItWas(const GeneratorAsItWas&) = delete;
  GeneratorAsItWas& operator=(const GeneratorAsItWas&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace muster::tensor
