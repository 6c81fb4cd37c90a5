// The kinds of devices that a program offers by name: cuda, and others that it brings itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

namespace muster::tensor {

/// A kind of accelerator. The CPU is always there and is none of them.
struct DeviceKind {
  std::string_view name;  ///< "cuda", of --device cuda:1
  c10::DeviceType type = c10::DeviceType::CUDA;
  /// Makes its devices usable in this process; the first call does it, later ones answer alike.
  /// Empty, or why there is none here, in words. Any thread.
  std::string (*open)() = nullptr;
  bool is_automatic = false;  ///< --device auto takes it where there is one
};

using DeviceKinds = std::vector<DeviceKind>;

/// NVIDIA's, by LibTorch's CUDA half.
extern const DeviceKind kCudaDevices;

/// What programs offer unless they say otherwise: cuda.
DeviceKinds usual_devices();

/// "cuda:1", "cuda", "cpu", "auto".
struct DeviceName {
  std::string kind;
  std::optional<int64_t> index;
};

/// Throws a usage error that names `flag` for a text of another form, a kind that is none of `kinds`,
/// and a number behind cpu or auto.
DeviceName parse_device(const std::string& text, const DeviceKinds& kinds, const std::string& flag);

/// How many devices of an open kind there are.
int64_t device_count(c10::DeviceType type);

}  // namespace muster::tensor
