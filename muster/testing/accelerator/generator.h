// Random numbers of a fake device: the CPU's, from a generator of its own.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>

namespace muster::testing {

at::Generator make_fake_generator(c10::DeviceIndex device);

/// The generator of the CPU that it draws from; nothing, if it is no fake device's.
std::optional<at::Generator> cpu_generator_of(const at::Generator& generator);

}  // namespace muster::testing
