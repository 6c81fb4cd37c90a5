// GradientSync: ranks with different numbers of steps.
#include <algorithm>

#include <ATen/ops/as_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/backward_guard.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/ddp/reducer_shim.h"
#include "muster/parallel/ddp/uneven_end.h"
#include "muster/parallel/module/gradient_mean.h"

namespace muster::parallel {

// Note [Join]
// Every forward within join() starts with one small sum over the ranks: who takes part, whether
// gradients will be averaged, whether somebody wants to end it all. A rank whose body has returned
// goes on meeting the others there and, knowing what they are about to do, takes part in each of
// their collectives with zeros: sorting of buckets, buffers, counts of samples, buckets. When
// nobody has a step left, all take the model of the rank that worked last. Source:
// torch.distributed.algorithms.join, whose two or three small operations per step are one here.
//
// ZeRO's stage 1 needs the averages on ranks that have ended, too: they update their shards by them.
// There gradients may add up over several backwards of a step, and what a rank has kept of the earlier
// ones, G, is part of its share of the next: of w ranks p have a batch and send (G + g) / d each, so
// that each of the other w - p sends (1 - p / d) / (w - p) of G, for the sum to be G and all g / d.

namespace {

c10::intrusive_ptr<c10d::Work> finished_work(const at::Tensor& value) {
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  future->markCompleted(c10::IValue(std::vector<at::Tensor>{value}));
  return c10d::Work::create_from_future(future);
}

/// What a rank says of itself, summed over the ranks: [world] present, then three counts.
struct Notice {
  bool present = false, trains = false, syncs = false, ends = false;
};

struct Notices {
  std::vector<int> present, absent;
  bool trains, syncs, ends;
};

Notices exchange(const Notice& mine, const distributed::ProcessGroup& group) {
  const int world = group.world_size();
  at::Tensor sum = at::zeros({world + 3}, at::kLong);
  auto* values = sum.data_ptr<int64_t>();
  values[group.rank()] = mine.present;
  values[world] = mine.trains;
  values[world + 1] = mine.syncs;
  values[world + 2] = mine.ends;
  sum = sum.to(group.device());
  group.all_reduce(sum);
  sum = sum.cpu();
  values = sum.data_ptr<int64_t>();
  Notices notices{{}, {}, values[world] > 0, values[world + 1] > 0, values[world + 2] > 0};
  for (int rank = 0; rank < world; ++rank)
    (values[rank] > 0 ? notices.present : notices.absent).push_back(rank);
  return notices;
}

/// Of a bucket, each parameter's gradient in the parameter's order in memory, as the Reducer has it.
std::vector<at::Tensor> gradients_in(const c10d::GradBucket& bucket) {
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  std::vector<at::Tensor> gradients = bucket.getGradients();  // contiguous views of its buffer
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    if (!parameter.is_non_overlapping_and_dense()) continue;
    const int64_t offset = gradients[i].storage_offset();
    gradients[i] = at::as_strided(gradients[i], parameter.sizes(), parameter.strides(), offset);
  }
  return gradients;
}

}  // namespace

void GradientSync::announce_forward(bool training) {
  const Notices notices =
      exchange({.present = true, .trains = training, .syncs = training && guard_->sync}, group_);
  if (notices.ends) refuse_uneven(notices.absent);
  join_->present = static_cast<int>(notices.present.size());
  join_->authority = notices.present.back();
  // The Reducer reads the divisor from it.
  const at::Tensor divisor = at::full({1}, join_->present, at::kLong);
  reducer_->set_forward_pass_work_handle(finished_work(divisor),
                                         join_->options.divide_by_initial_world_size);
}

bool GradientSync::shadow_forward() {
  const Notices notices = exchange({.ends = join_->options.throw_on_early_termination}, group_);
  if (notices.present.empty()) return false;
  if (notices.ends) refuse_uneven(notices.absent);
  join_->present = static_cast<int>(notices.present.size());
  join_->syncs = notices.syncs;
  if (notices.trains) reducer_->rebuild_buckets();
  if (buffers_due_ && options_.broadcast_buffers)
    broadcast(tensors_of(buffers_), notices.present.back());
  buffers_due_ = notices.syncs;
  return true;
}

void GradientSync::give_kept_share(const c10d::GradBucket& bucket) const {
  const int world = group_.world_size(), present = join_->present;
  const int divisor = join_->options.divide_by_initial_world_size ? world : present;
  // A hook divides by itself, by all ranks.
  const double share = hook_ ? 1 : (1 - static_cast<double>(present) / divisor) / (world - present);
  if (share == 0) return;
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  const std::vector<at::Tensor> gradients = gradients_in(bucket);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& kept = parameters[i].grad();
    if (kept.defined()) at::Tensor(gradients[i]).copy_(kept).mul_(share);
  }
}

/// `used`: by parameter, on how many ranks the step used it; undefined: all are.
void GradientSync::keep_average(c10d::GradBucket& bucket,
                                const c10::IValue& arrived,
                                const at::Tensor& used) {
  if (hook_) {
    at::Tensor& buffer = bucket.getBufferRef();
    buffer.copy_(hook_->averaged_gradient(arrived).view_as(buffer));
  }
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  const std::vector<at::Tensor> gradients = gradients_in(bucket);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (used.defined()) {
      const auto named = std::ranges::find_if(parameters_, [&](const auto& candidate) {
        return candidate.second.is_same(parameters[i]);
      });
      if (used.const_data_ptr<int>()[named - parameters_.begin()] == 0) continue;
    }
    store_gradient(parameters[i], gradients[i]);
  }
}

void GradientSync::shadow_backward(bool keeps_averages) {
  const c10::NoGradGuard no_grad;
  if (join_->options.weighted) {
    const at::Tensor none = at::zeros({1}, at::kLong).to(group_.device());
    group_.all_reduce(none);
  }
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reductions;
  auto buckets = reducer_->get_grad_buckets(/*return_zero_tensors=*/true);
  if (keeps_averages)
    for (const c10d::GradBucket& bucket : buckets) give_kept_share(bucket);
  for (c10d::GradBucket& bucket : buckets) reductions.push_back(reducer_->run_comm_hook(bucket));
  at::Tensor used;
  if (options_.find_unused_parameters && !options_.static_graph) {
    used = at::zeros_like(reducer_->get_local_used_map_on_device());
    group_.all_reduce(used);
    used = used.cpu();
  }
  for (size_t b = 0; b < buckets.size(); ++b) {
    reductions[b]->waitAndThrow();
    if (keeps_averages) keep_average(buckets[b], reductions[b]->value(), used);
  }
  if (hook_) hook_->drain();
  reducer_->push_rebuilt_params_for_all_indices();
}

void GradientSync::keep_last_model(bool was_last) {
  const at::Tensor last =
      at::full({1}, was_last ? group_.rank() : -1, at::kLong).to(group_.device());
  group_.all_reduce(last, c10d::ReduceOp::MAX);
  broadcast_state(static_cast<int>(last.item<int64_t>()));
}

void GradientSync::begin_join(const JoinOptions& options) {
  if (join_) throw usage_error({.refused = "join within join"});
  use_buckets_alone();
  require_reducer();
  join_ = JoinRun{.options = options, .present = group_.world_size()};
}

void GradientSync::end_join() {
  join_.reset();
  reducer_->set_forward_pass_work_handle(nullptr, true);
}

bool GradientSync::shadow_step() {
  if (!shadow_forward() || !join_->syncs) return false;
  shadow_backward(/*keeps_averages=*/true);
  return true;
}

void GradientSync::join(const JoinOptions& options, const std::function<void()>& body) {
  begin_join(options);
  try {
    body();
    bool was_last = true;
    while (shadow_forward()) {
      was_last = false;
      if (join_->syncs) shadow_backward(/*keeps_averages=*/false);
    }
    keep_last_model(was_last);
  } catch (...) {
    end_join();
    throw;
  }
  end_join();
}

}  // namespace muster::parallel
