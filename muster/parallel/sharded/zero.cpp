#include "muster/parallel/sharded/zero.h"

#include <algorithm>
#include <cmath>

#include <ATen/OpMathType.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

constexpr size_t kBroadcastBytes = 250 << 20;  // as PyTorch

}  // namespace

ZeroCore::ZeroCore(const NamedTensors& parameters,
                   const NamedTensors& buffers,
                   distributed::ProcessGroup group,
                   const ZeroOptions& options)
    : parameters_(
          parameters,
          std::move(group),
          {.bucket_bytes = options.bucket_bytes, .master_weights = options.master_weights}) {
  if (options.stage != 1 && options.stage != 2) {
    throw usage_error({.refused = "ZeRO stage",
                       .rule = "1 (optimizer state) or 2 (and gradients)",
                       .value = std::to_string(options.stage)});
  }
  if (options.stage == 1) return;
  gradients_ = std::make_unique<ShardedGradients>(
      parameters_,
      ShardedGradientOptions{.find_unused_parameters = options.find_unused_parameters});
  if (parameters_.group().world_size() == 1) return;
  std::vector<at::Tensor> untrained;  // the trained ones are rank 0's already
  for (const auto& [name, buffer] : buffers) {
    if (buffer.defined()) untrained.push_back(buffer.detach());
  }
  if (options.broadcast_buffers) buffers_ = untrained;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) untrained.push_back(parameter.detach());
  }
  broadcast(untrained);
}

void ZeroCore::broadcast(const std::vector<at::Tensor>& tensors) const {
  if (tensors.empty()) return;
  const c10::NoGradGuard no_grad;
  c10d::broadcast_coalesced(parameters_.group().c10d(), tensors, kBroadcastBytes, 0);
}

void ZeroCore::before_forward() const { broadcast(buffers_); }

at::Tensor ZeroCore::gradient(size_t bucket, const ShardPiece& piece) const {
  if (gradients_) return gradients_->of(bucket, piece);
  const at::Tensor& parameter = parameters_.parameters()[piece.parameter].second;
  at::Tensor whole = parameter.grad();
  if (!whole.defined()) return {};
  if (whole.strides() != parameter.strides()) {
    const at::Tensor dense =
        at::empty_strided(parameter.sizes(), parameter.strides(), whole.options());
    dense.copy_(whole);
    parameter.mutable_grad() = dense;  // so that clipping scales what the step sees
    whole = dense;
  }
  return at::as_strided(
      whole.detach(), {piece.end - piece.begin}, {1}, whole.storage_offset() + piece.begin);
}

void ZeroCore::step(const std::function<void()>& update) {
  for (size_t b = 0; b < parameters_.buckets(); ++b)
    parameters_.set_gradients(b, [&](const ShardPiece& piece) { return gradient(b, piece); });
  update();
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    parameters_.drop_gradients(b);
    parameters_.publish(b);
  }
  parameters_.wait();
}

void ZeroCore::step_by_bucket(const std::function<void(size_t)>& update) {
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    parameters_.set_gradients(b, [&](const ShardPiece& piece) { return gradient(b, piece); });
    update(b);
    parameters_.drop_gradients(b);
    parameters_.publish(b);
  }
  parameters_.wait();
}

double ZeroCore::clip_grad_norm(double max_norm) {
  if (!(max_norm >= 0)) {
    throw usage_error({.refused = "gradient clipping",
                       .rule = "max_norm is not negative",
                       .value = shortest(max_norm)});
  }
  const c10::NoGradGuard no_grad;
  const distributed::ProcessGroup& group = parameters_.group();
  std::vector<std::vector<at::Tensor>> gradients(parameters_.buckets());  // of one dtype each
  double squares = 0;
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    const auto& layout = parameters_.layout(b);
    for (const ShardPiece& piece : layout.pieces(group.rank(), parameters_.numels())) {
      if (const at::Tensor own = gradient(b, piece); own.defined()) gradients[b].push_back(own);
    }
    if (gradients[b].empty()) continue;
    // Norms of 16-bit gradients are float32; their squares add up in float64.
    const at::Tensor norms = at::stack(
        at::_foreach_norm(gradients[b], 2, at::toOpMathType(gradients[b][0].scalar_type())));
    squares += norms.to(at::kDouble).square().sum().item<double>();
  }
  const at::Tensor total = at::full({1}, squares, at::kDouble).to(group.device());
  if (group.world_size() > 1) group.all_reduce(total);
  const double norm = std::sqrt(total.item<double>());
  // NaN and infinity pass through, as in clip_grad_norm_: look at the norm.
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const auto& list : gradients) {
    if (!list.empty()) at::_foreach_mul_(list, factor);
  }
  return norm;
}

void ZeroCore::zero_grad() {
  if (gradients_) return gradients_->zero_grad();
  for (const auto& [name, parameter] : parameters_.parameters())
    parameter.mutable_grad() = at::Tensor();
}

}  // namespace muster::parallel
