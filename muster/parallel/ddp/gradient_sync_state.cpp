// GradientSync: weights of uneven shares, and what a checkpoint keeps.
#include <ATen/ops/full.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/bucket_tuner.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/module/loss_share.h"

namespace muster::parallel {
namespace {

constexpr std::string_view kCap = "bucket_bytes_cap", kHook = "hook/";

}  // namespace

at::Tensor GradientSync::weigh(const at::Tensor& mean_loss, int64_t samples) const {
  return weigh(mean_loss, samples, samples_of_all(samples, group_));
}

at::Tensor GradientSync::weigh(const at::Tensor& mean_loss,
                               int64_t samples,
                               int64_t samples_of_all) const {
  // A hook divides by all ranks, whatever the option says.
  const bool fewer = join_ && !hook_ && !join_->options.divide_by_initial_world_size;
  return share_of_loss(
      mean_loss, samples, samples_of_all, fewer ? join_->present : group_.world_size());
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
