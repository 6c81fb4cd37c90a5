// GradientSync: averages apart from forward and backward.
#include <unordered_map>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/ddp/reducer_shim.h"
#include "muster/parallel/module/gradient_mean.h"

namespace muster::parallel {

void GradientSync::average_gradients() {
  require_reducer();
  if (join_) {
    throw usage_error({.refused = "average_gradients within join",
                       .rule = "a rank that has ended joins in what backward sends"});
  }
  if (hook_) {
    average_by_hook();
  } else {
    GradientMean mean(tensors_of(parameters_), group_.world_size());
    mean.start(group_);
    mean.wait();
    mean.store();
  }
  buffers_due_ = true;  // a step has ended, as behind a synchronised forward
}

/// In the Reducer's buckets, as the hook knows them: it may keep a state for each.
void GradientSync::average_by_hook() {
  const at::NoGradGuard no_grad;
  std::unordered_map<const void*, int64_t> place;
  at::Tensor used = at::zeros({static_cast<int64_t>(parameters_.size())}, at::kInt);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    place[parameter.unsafeGetTensorImpl()] = static_cast<int64_t>(i);
    if (parameter.grad().defined()) used.data_ptr<int>()[i] = 1;
  }
  used = used.to(group_.device());
  group_.all_reduce(used, c10d::ReduceOp::MAX);
  used = used.cpu();
  for (c10d::GradBucket& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/true)) {
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    const std::vector<at::Tensor> gradients = bucket.getGradients();  // views of its buffer
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].grad().defined()) gradients[i].copy_(parameters[i].grad());
    }
    const auto reduction = hook_->start(bucket);
    reduction->waitAndThrow();
    at::Tensor& buffer = bucket.getBufferRef();
    buffer.copy_(hook_->averaged_gradient(reduction->value()).view_as(buffer));
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (used.data_ptr<int>()[place.at(parameters[i].unsafeGetTensorImpl())] == 0) continue;
      store_gradient(parameters[i], gradients[i]);
    }
  }
}

}  // namespace muster::parallel
