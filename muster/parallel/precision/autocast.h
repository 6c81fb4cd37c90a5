// Mixed precision: which operations run in 16 bits.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace muster::parallel {

struct AutocastOptions {
  bool enabled = true;
  /// Undefined: bfloat16 on the CPU, float16 on CUDA, as in PyTorch.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  /// A parameter is cast once per guard, not once per use. LibTorch's cache is the process's: a
  /// guard that ends on another thread empties it, and where a parameter is used several times in a
  /// forward (LSTM, GRU), its gradient is then rounded more or less often. Thread ranks that need
  /// the same bits on every run do without.
  bool cache = true;
};

/// torch.autocast for the thread that makes it, as long as it lives: matrix products and
/// convolutions take and give `dtype`, what needs more stays or becomes float32. Around forward and
/// loss; backward runs in the dtypes that forward chose and needs no guard. What runs in which
/// dtype on other threads, so in other thread ranks, is not touched (but see `cache`). Guards nest;
/// they end in the reverse order of their beginning.
///
/// Operations round as in Python. LibTorch's C++ layers do not always call the same ones: over more
/// than two dimensions torch::nn::Linear, and so MultiheadAttention and the Transformer layers,
/// adds the bias to a product that is rounded already (1e-3 for numbers near 1). at::linear(x,
/// layer->weight, layer->bias) is what Python calls.
///
/// Throws a usage error for a dtype that the device does not autocast to (bfloat16 and float16 there
/// are), and for a kind of device that does not autocast, such as meta.
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
