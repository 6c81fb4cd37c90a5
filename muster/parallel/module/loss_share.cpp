#include "muster/parallel/module/loss_share.h"

#include <ATen/ops/full.h>
#include <ATen/ops/nan_to_num.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

int64_t samples_of_all(int64_t samples, const distributed::ProcessGroup& group) {
  const at::Tensor count = at::full({1}, samples, at::kLong).to(group.device());
  group.all_reduce(count);
  return count.item<int64_t>();
}

at::Tensor share_of_loss(const at::Tensor& mean_loss,
                         int64_t samples,
                         int64_t samples_of_all,
                         int ranks) {
  if (samples < 0 || samples > samples_of_all || samples_of_all == 0) {
    throw usage_error({.refused = "weigh",
                       .rule = "a rank's samples are not negative, and a step has at least one",
                       .value = concat(samples, " of ", samples_of_all)});
  }
  // The mean over no samples is NaN, and NaN times 0 too.
  if (samples == 0) return at::nan_to_num(mean_loss, 0.0, 0.0, 0.0) * 0.0;
  const double weight = static_cast<double>(samples) * static_cast<double>(ranks) /
                        static_cast<double>(samples_of_all);
  return weight == 1.0 ? mean_loss : mean_loss * weight;
}

}  // namespace muster::parallel
