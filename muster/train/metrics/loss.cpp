#include "muster/train/metrics/loss.h"

#include <algorithm>

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/topk.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

at::Tensor cross_entropy(const at::Tensor& scores,
                         const at::Tensor& target,
                         double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    throw usage_error({.refused = "label smoothing",
                       .rule = "a share, from 0 to 1",
                       .value = shortest(label_smoothing)});
  }
  return at::cross_entropy_loss(
      scores, target, /*weight=*/{}, at::Reduction::Mean, /*ignore_index=*/-100, label_smoothing);
}

at::Tensor in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k) {
  if (k < 1)
    throw usage_error(
        {.refused = "top-k accuracy", .rule = "k is at least 1", .value = std::to_string(k)});
  const at::Tensor best = std::get<1>(at::topk(scores, std::min(k, scores.size(1)), /*dim=*/1));
  return best.eq(target.unsqueeze(1)).sum();
}

int64_t count_in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k) {
  return in_top_k(scores, target, k).item<int64_t>();
}

}  // namespace muster::train
