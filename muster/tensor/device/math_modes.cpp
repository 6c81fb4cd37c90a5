#include "muster/tensor/device/math_modes.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"

namespace muster::tensor {
namespace {

std::string name_of_precision(at::Float32MatmulPrecision precision) {
  switch (precision) {
    case at::Float32MatmulPrecision::HIGH:
      return "high";
    case at::Float32MatmulPrecision::MEDIUM:
      return "medium";
    default:
      return "highest";
  }
}

void set_math_modes(const MathModes& modes, const MathModes& now) {
  at::Context& context = at::globalContext();
  if (modes.deterministic != now.deterministic)
    context.setDeterministicAlgorithms(modes.deterministic, /*warn_only=*/false);
  if (modes.float32_matmul_precision != now.float32_matmul_precision)
    context.setFloat32MatmulPrecision(modes.float32_matmul_precision);
}

}  // namespace

MathModes math_modes() {
  const at::Context& context = at::globalContext();
  return {.deterministic = context.deterministicAlgorithms(),
          .float32_matmul_precision = name_of_precision(context.float32MatmulPrecision())};
}

MathModesGuard::MathModesGuard(const MathModes& modes) {
  const std::string& precision = modes.float32_matmul_precision;
  if (precision != "highest" && precision != "high" && precision != "medium") {
    throw usage_error({.refused = "--float32-matmul-precision",
                       .rule = "highest, high or medium",
                       .value = precision});
  }
  const MathModes now = math_modes();
  if (now == modes) return;
  // cuBLAS reads it with its first handle.
  if (modes.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  set_math_modes(modes, now);
  before_ = now;
}

MathModesGuard::~MathModesGuard() {
  if (before_) set_math_modes(*before_, math_modes());
}

void to_channels_last(torch::nn::Module& module) {
  const c10::NoGradGuard no_grad;
  const auto convert = [](at::Tensor tensor) {
    if (tensor.defined() && tensor.dim() == 4)
      tensor.set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
  };
  for (const at::Tensor& parameter : module.parameters()) convert(parameter);
  for (const at::Tensor& buffer : module.buffers()) convert(buffer);
}

}  // namespace muster::tensor
