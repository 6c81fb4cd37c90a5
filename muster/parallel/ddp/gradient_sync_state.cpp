// GradientSync: weights of uneven shares, and what a checkpoint keeps.
#include <ATen/ops/full.h>
#include <ATen/ops/nan_to_num.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/bucket_tuner.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"

namespace muster::parallel {
namespace {

constexpr std::string_view kCap = "bucket_bytes_cap", kHook = "hook/";

}  // namespace

at::Tensor GradientSync::weigh(const at::Tensor& mean_loss, int64_t samples) const {
  const at::Tensor count = at::full({1}, samples, at::kLong).to(group_.device());
  group_.all_reduce(count);
  return weigh(mean_loss, samples, count.item<int64_t>());
}

at::Tensor GradientSync::weigh(const at::Tensor& mean_loss,
                               int64_t samples,
                               int64_t samples_of_all) const {
  if (samples < 0 || samples > samples_of_all || samples_of_all == 0) {
    throw usage_error({.refused = "weigh",
                       .rule = "a rank's samples are not negative, and a step has at least one",
                       .value = concat(samples, " of ", samples_of_all)});
  }
  // A hook divides by all ranks, whatever the option says.
  const bool fewer = join_ && !hook_ && !join_->options.divide_by_initial_world_size;
  const auto divisor = static_cast<double>(fewer ? join_->present : group_.world_size());
  // The mean over no samples is NaN, and NaN times 0 too.
  if (samples == 0) return at::nan_to_num(mean_loss, 0.0, 0.0, 0.0) * 0.0;
  const double weight =
      static_cast<double>(samples) * divisor / static_cast<double>(samples_of_all);
  return weight == 1.0 ? mean_loss : mean_loss * weight;
}

NamedTensors GradientSync::state() const {
  NamedTensors state;
  if (!tuner_) state.emplace_back(kCap, at::full({}, bucket_bytes_cap_, at::kLong));
  if (hook_) {
    for (auto& [name, tensor] : hook_->hook().state())
      state.emplace_back(concat(kHook, name), tensor);
  }
  return state;
}

void GradientSync::load_state(const NamedTensors& state) {
  NamedTensors of_hook;
  int64_t cap = bucket_bytes_cap_;
  for (const auto& [name, tensor] : state) {
    if (name == kCap) {
      cap = tensor.item<int64_t>();
      tuner_.reset();
    } else if (name.starts_with(kHook)) {
      of_hook.emplace_back(name.substr(kHook.size()), tensor);
    } else {
      throw usage_error(
          {.refused = concat("state \"", name, "\""), .rule = "not of a DistributedDataParallel"});
    }
  }
  if (hook_) {
    hook_->hook().load_state(of_hook);
  } else if (!of_hook.empty()) {
    throw usage_error({.refused = "state of a communication hook",
                       .rule = "this DistributedDataParallel has none",
                       .value = of_hook[0].first,
                       .hint = "resume with the hook that the checkpoint was made with"});
  }
  if (cap == bucket_bytes_cap_) return;
  bucket_bytes_cap_ = cap;
  build_reducer({});
}

}  // namespace muster::parallel
