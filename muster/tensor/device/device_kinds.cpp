#include "muster/tensor/device/device_kinds.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/cuda.h"

namespace muster::tensor {
namespace {

std::string open_cuda() { return load_cuda(); }

}  // namespace

const DeviceKind kCudaDevices{
    .name = "cuda", .type = c10::DeviceType::CUDA, .open = &open_cuda, .is_automatic = true};

DeviceKinds usual_devices() { return {kCudaDevices}; }

DeviceName parse_device(const std::string& text,
                        const DeviceKinds& kinds,
                        const std::string& flag) {
  std::vector<std::string> known{"auto", "cpu"}, forms{"auto", "cpu"};
  for (const DeviceKind& kind : kinds) {
    known.emplace_back(kind.name);
    forms.push_back(concat(kind.name, " or ", kind.name, ":N"));
  }
  const size_t colon = text.find(':');
  DeviceName name{.kind = text.substr(0, colon), .index = {}};
  bool is_known = false, has_numbers = false;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] != name.kind) continue;
    is_known = true;
    has_numbers = i >= 2;
  }
  const auto refusal = [&](const std::string& hint) {
    return usage_error({.refused = flag,
                        .rule = join(forms, ", "),
                        .value = text.empty() ? "\"\"" : text,
                        .hint = hint});
  };
  // As Lightning calls it.
  const std::string_view meant = name.kind == "gpu" ? "cuda" : std::string_view(name.kind);
  if (!is_known) throw refusal(suggestion(meant, known));
  if (colon == std::string::npos) return name;
  name.index = to_int(text.substr(colon + 1));
  if (!has_numbers) throw refusal(concat(name.kind, " has no number"));
  if (!name.index || *name.index < 0) throw refusal("devices are numbered from 0");
  return name;
}

int64_t device_count(c10::DeviceType type) {
  return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount()
                                             : 0;
}

}  // namespace muster::tensor
