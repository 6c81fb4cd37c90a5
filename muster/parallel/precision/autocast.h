// Mixed precision: which operations run in 16 bits.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace muster::parallel {

struct AutocastOptions {
  bool enabled = true;
  /// Undefined: bfloat16 on the CPU, float16 on CUDA, as in PyTorch.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  bool cache = true;  ///< a parameter is cast once per guard, not once per use
};

/// torch.autocast for the thread that makes it, as long as it lives: matrix products and
/// convolutions take and give `dtype`, what needs more stays or becomes float32. Around forward and
/// loss; backward runs in the dtypes that forward chose and needs no guard. Other threads, so other
/// thread ranks, are not touched. Guards nest; they end in the reverse order of their beginning.
///
/// Throws a usage error for a dtype that the device does not autocast to: bfloat16 and float16
/// there are.
class AutocastGuard {
 public:
  explicit AutocastGuard(c10::DeviceType device, AutocastOptions options = {});
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_, cache_before_;
  c10::ScalarType dtype_before_;
};

}  // namespace muster::parallel
