#include "muster/train/replicas/strategy.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/optim/clip.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/plan/plan.h"

namespace muster::train {

int64_t bucket_bytes_of(int64_t bucket_mb, std::string_view owner) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (bucket_mb >= 1 && bucket_mb <= kMost) return bucket_mb << 20;
  throw usage_error({.refused = concat(owner, ": bucket_mb"),
                     .rule = concat("from 1 to ", kMost),
                     .value = std::to_string(bucket_mb)});
}

Strategy::Strategy(StrategyRequest request) : request_(std::move(request)) {}

at::Tensor Strategy::forward(const at::Tensor& images) { return model()->forward(images); }

double Strategy::clip_gradients(double max_norm) {
  // The gradients are averaged already: all ranks compute the same norm.
  return optim::clip_grad_norm(model()->parameters(), max_norm).item<double>();
}

void Strategy::rehearse(const data::Batch&) {}

void Strategy::rehearse_backward(const data::Batch& batch) {
  model()->train();
  at::Tensor loss;
  {
    const PrecisionGuard guard(request_.plan.precision.kind, batch.data.device());
    loss = cross_entropy(forward(batch.data), batch.target);
  }
  loss.backward();
  optimizer().zero_grad();
}

tensor::NamedTensorList Strategy::optimizer_state() { return optimizer().state(); }

void Strategy::load_optimizer_state(const tensor::NamedTensorList& state) {
  optimizer().load_state({state, {}});
}

}  // namespace muster::train
