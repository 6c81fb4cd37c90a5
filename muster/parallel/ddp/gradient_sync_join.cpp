// GradientSync: ranks with different numbers of steps.
#include <algorithm>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/backward_guard.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/ddp/reducer_shim.h"
#include "muster/parallel/ddp/uneven_end.h"

namespace muster::parallel {

// Note [Join]
// Every forward within join() starts with one small sum over the ranks: who takes part, whether
// gradients will be averaged, whether somebody wants to end it all. A rank whose body has returned
// goes on meeting the others there and, knowing what they are about to do, takes part in each of
// their collectives with zeros: sorting of buckets, buffers, counts of samples, buckets. When
// nobody has a step left, all take the model of the rank that worked last. Source:
// torch.distributed.algorithms.join, whose two or three small operations per step are one here.

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
  join_->syncs = notices.syncs;
  if (notices.trains) reducer_->rebuild_buckets();
  if (buffers_due_ && options_.broadcast_buffers)
    broadcast(tensors_of(buffers_), notices.present.back());
  buffers_due_ = notices.syncs;
  return true;
}

void GradientSync::shadow_backward() {
  if (join_->options.weighted) {
    const at::Tensor none = at::zeros({1}, at::kLong).to(group_.device());
    group_.all_reduce(none);
  }
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> reductions;
  auto buckets = reducer_->get_grad_buckets(/*return_zero_tensors=*/true);
  for (c10d::GradBucket& bucket : buckets) reductions.push_back(reducer_->run_comm_hook(bucket));
  if (options_.find_unused_parameters && !options_.static_graph)
    group_.all_reduce(at::zeros_like(reducer_->get_local_used_map_on_device()));
  for (const auto& reduction : reductions) reduction->waitAndThrow();
  if (hook_) hook_->drain();
  reducer_->push_rebuilt_params_for_all_indices();
}

void GradientSync::keep_last_model(bool was_last) {
  const at::Tensor last =
      at::full({1}, was_last ? group_.rank() : -1, at::kLong).to(group_.device());
  group_.all_reduce(last, c10d::ReduceOp::MAX);
  broadcast_state(static_cast<int>(last.item<int64_t>()));
}

void GradientSync::join(const JoinOptions& options, const std::function<void()>& body) {
  if (join_) throw usage_error({.refused = "join within join"});
  use_buckets_alone();
  require_reducer();
  join_ = JoinRun{.options = options, .present = group_.world_size()};
  const auto leave = [&] {
    join_.reset();
    reducer_->set_forward_pass_work_handle(nullptr, true);
  };
  try {
    body();
    bool was_last = true;
    while (shadow_forward()) {
      was_last = false;
      if (join_->syncs) shadow_backward();
    }
    keep_last_model(was_last);
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

}  // namespace muster::parallel
