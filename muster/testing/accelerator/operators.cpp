#include "muster/testing/accelerator/operators.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/testing/accelerator/allocators.h"
#include "muster/testing/accelerator/copies.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

void check_dense(std::optional<c10::Layout> layout, std::optional<bool> pinned) {
  const bool dense = c10::layout_or_default(layout) == c10::kStrided;
  if (dense && !c10::pinned_memory_or_default(pinned)) return;
  throw usage_error(
      {.refused = dense ? "pinned memory on a fake device" : "a tensor on a fake device",
       .rule = dense ? "host memory alone is pinned" : "fake devices have dense tensors only",
       .value = dense ? "" : c10::str(*layout)});
}

at::Tensor empty_on_fake(c10::IntArrayRef size,
                         std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device,
                         std::optional<bool> pinned,
                         std::optional<c10::MemoryFormat> format) {
  check_dense(layout, pinned);
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size,
                                   device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided_on_fake(c10::IntArrayRef size,
                                 c10::IntArrayRef stride,
                                 std::optional<c10::ScalarType> dtype,
                                 std::optional<c10::Layout> layout,
                                 std::optional<c10::Device> device,
                                 std::optional<bool> pinned) {
  check_dense(layout, pinned);
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size,
                                           stride,
                                           device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

/// Without it set_data(), and so module->to(device), is refused.
bool may_take_data_of(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return plain(self) && plain(from);
}

void record_stream_on_fake(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

/// The CPU's kernel has no generator argument and would draw from the CPU's.
std::tuple<at::Tensor, at::Tensor> dropout_on_fake(const at::Tensor& input,
                                                   double p,
                                                   std::optional<bool> train) {
  const auto bools = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, bools)};
  const at::Tensor mask = at::empty_like(input, bools).bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0.0 : 1.0 / (1.0 - p)), mask};
}

at::Tensor plus(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// LibTorch takes fused cells on PrivateUse1, which the CPU does not have: here of differentiable
// parts, above autograd. Gates in the order of torch.nn.LSTM and GRU.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input,
    const at::Tensor& hidden,
    const at::Tensor& cell,
    const std::optional<at::Tensor>& bias_input,
    const std::optional<at::Tensor>& bias_hidden) {
  const auto gates = plus(plus(input + hidden, bias_input), bias_hidden).chunk(4, 1);
  const at::Tensor next = gates[1].sigmoid() * cell + gates[0].sigmoid() * gates[2].tanh();
  return {gates[3].sigmoid() * next.tanh(), next, at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input,
                                            const at::Tensor& hidden,
                                            const at::Tensor& state,
                                            const std::optional<at::Tensor>& bias_input,
                                            const std::optional<at::Tensor>& bias_hidden) {
  const auto of_input = plus(input, bias_input).chunk(3, 1);
  const auto of_hidden = plus(hidden, bias_hidden).chunk(3, 1);
  const at::Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const at::Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const at::Tensor fresh = (of_input[2] + reset * of_hidden[2]).tanh();
  return {fresh + update * (state - fresh), at::Tensor()};
}

/// Which attention kernel: the CPU's choice.
int64_t attention_on_fake(const at::Tensor& query,
                          const at::Tensor& key,
                          const at::Tensor& value,
                          const std::optional<at::Tensor>& mask,
                          double dropout,
                          bool causal,
                          std::optional<double> scale,
                          bool grouped) {
  return at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, grouped);
}

constexpr std::array<std::string_view, 10> kOwn = {"aten::copy_",  // ends in _copy_from
                                                   "aten::empty.memory_format",
                                                   "aten::empty_strided",
                                                   "aten::_copy_from",
                                                   "aten::_copy_from_and_resize",
                                                   "aten::_has_compatible_shallow_copy_type",
                                                   "aten::record_stream",
                                                   "aten::native_dropout",
                                                   "aten::_thnn_fused_lstm_cell",
                                                   "aten::_thnn_fused_gru_cell"};

}  // namespace

void add_own_operators(torch::Library& kernels, torch::Library& derivatives) {
  kernels.impl("empty.memory_format", &empty_on_fake);
  kernels.impl("empty_strided", &empty_strided_on_fake);
  kernels.impl("_copy_from", &copy_from);
  kernels.impl("_copy_from_and_resize", &copy_from_and_resize);
  kernels.impl("_has_compatible_shallow_copy_type", &may_take_data_of);
  kernels.impl("record_stream", &record_stream_on_fake);
  kernels.impl("native_dropout", &dropout_on_fake);
  for (torch::Library* const library : {&kernels, &derivatives}) {
    library->impl("_thnn_fused_lstm_cell", &lstm_cell);
    library->impl("_thnn_fused_gru_cell", &gru_cell);
  }
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention_on_fake);
}

bool has_own_kernel(std::string_view op) {
  return std::find(kOwn.begin(), kOwn.end(), op) != kOwn.end();
}

}  // namespace muster::testing
