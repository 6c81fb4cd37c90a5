// ZeroCore: ranks with different numbers of steps. See Note [Join of shards].
#include <algorithm>
#include <cstddef>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/uneven_end.h"
#include "muster/parallel/sharded/zero_core.h"

namespace muster::parallel {
namespace {

/// Of a rank: its call, the backwards in its sums, the norm to clip to, and whether it ends all.
enum ZeroNotice { kCallWord, kBackwardsWord, kNormWord, kEndsWord, kNoticeWords };

/// All ranks' notices; alike on all. Throws a usage error, on all ranks, where those that are present
/// do different things.
ZeroJoinMeeting meet(const distributed::ProcessGroup& group,
                     ZeroJoinCall call,
                     int64_t backwards,
                     double max_norm,
                     bool ends) {
  const int world = group.world_size();
  at::Tensor sum = at::zeros({world, kNoticeWords}, at::kDouble);
  auto* mine = sum.mutable_data_ptr<double>() + ptrdiff_t{group.rank()} * kNoticeWords;
  mine[kCallWord] = static_cast<double>(call);
  mine[kBackwardsWord] = static_cast<double>(backwards);
  mine[kNormWord] = max_norm;
  mine[kEndsWord] = ends ? 1 : 0;
  sum = sum.to(group.device());
  group.all_reduce(sum);
  sum = sum.cpu();
  ZeroJoinMeeting meeting;
  for (int rank = 0; rank < world; ++rank) {
    const double* theirs = sum.const_data_ptr<double>() + ptrdiff_t{rank} * kNoticeWords;
    meeting.ends = meeting.ends || theirs[kEndsWord] > 0;
    const auto what = static_cast<ZeroJoinCall>(static_cast<int64_t>(theirs[kCallWord]));
    if (what == ZeroJoinCall::kEnded) {
      meeting.absent.push_back(rank);
      continue;
    }
    if (!meeting.present.empty() && what != meeting.call)
      throw usage_error({.refused = "ranks within ZeRO's join do different things",
                         .rule = "all that have a batch call forward, clip and step together",
                         .value = concat("ranks ", meeting.present.front(), " and ", rank)});
    meeting.present.push_back(rank);
    meeting.call = what;
    meeting.max_norm = theirs[kNormWord];
    meeting.backwards = std::max(meeting.backwards, static_cast<int64_t>(theirs[kBackwardsWord]));
  }
  for (int rank = 0; rank < world; ++rank) {
    const double theirs =
        sum.const_data_ptr<double>()[ptrdiff_t{rank} * kNoticeWords + kBackwardsWord];
    if (static_cast<int64_t>(theirs) != meeting.backwards) meeting.is_uneven = true;
  }
  return meeting;
}

/// Of a clipping or a step.
void require_even(const ZeroJoinMeeting& meeting) {
  if (!meeting.is_uneven) return;
  throw usage_error({.refused = "a step of ZeRO within join",
                     .rule = "zero_grad() lies before the first forward of a step, on all ranks",
                     .value = "gradients of unlike numbers of backwards"});
}

}  // namespace

/// In the gradients that the next step sees.
int64_t ZeroCore::backwards() {
  if (gradients_) return gradients_->backwards();
  // The module's own zero_grad() tells nobody.
  if (std::ranges::none_of(parameters_.parameters(),
                           [](const auto& named) { return named.second.grad().defined(); }))
    backwards_ = 0;
  return backwards_;
}

int ZeroCore::ranks_of_mean() const {
  // A hook divides by all ranks, whatever the option says.
  const bool fewer = join_ && !join_->options.divide_by_initial_world_size && !gradients_->hook();
  return fewer ? join_->present : parameters_.group().world_size();
}

void ZeroCore::announce(ZeroJoinCall call, double max_norm) {
  if (!join_ || join_->has_ended) return;
  const ZeroJoinMeeting meeting = meet(parameters_.group(), call, backwards(), max_norm, false);
  if (meeting.ends) refuse_uneven(meeting.absent);
  if (call == ZeroJoinCall::kClip || call == ZeroJoinCall::kStep) return require_even(meeting);
  join_->present = static_cast<int>(meeting.present.size());
  join_->authority = meeting.present.back();
  if (gradients_) gradients_->set_divisor(ranks_of_mean());
}

void ZeroCore::shadow_forward(const ZeroJoinMeeting& meeting) {
  if (meeting.backwards == 0 && backwards() > 0) zero_grad();
  if (averages_ != nullptr) {
    if (averages_->shadow_step()) ++backwards_;
    return;
  }
  broadcast(buffers_, meeting.present.back());
  if (meeting.call != ZeroJoinCall::kTraining) return;
  if (join_->options.weighted) {
    const at::Tensor none = at::zeros({1}, at::kLong).to(parameters_.group().device());
    parameters_.group().all_reduce(none);
  }
  gradients_->shadow_backward();
}

/// Takes part in what the others do next. False: nobody has anything left.
bool ZeroCore::shadow(const std::function<void()>& update) {
  const ZeroJoinMeeting meeting = meet(parameters_.group(),
                                       ZeroJoinCall::kEnded,
                                       backwards(),
                                       0,
                                       join_->options.throw_on_early_termination);
  if (meeting.present.empty()) return false;
  if (meeting.ends) refuse_uneven(meeting.absent);
  switch (meeting.call) {
    case ZeroJoinCall::kClip:
      require_even(meeting);
      clip_grad_norm(meeting.max_norm);
      break;
    case ZeroJoinCall::kStep:
      require_even(meeting);
      step(update);
      break;
    default:
      shadow_forward(meeting);
  }
  return true;
}

void ZeroCore::join(const JoinOptions& options,
                    const std::function<void()>& update,
                    const std::function<void()>& body,
                    GradientSync* averages) {
  if (join_) throw usage_error({.refused = "join within join"});
  if (units_)
    throw usage_error(
        {.refused = "join with ZeRO stage 3",
         .rule = "a rank without a batch does not know which units the others call next",
         .hint = "take stage 1 or 2, or weigh(loss, 0) on a rank without samples"});
  const distributed::ProcessGroup& group = parameters_.group();
  if (averages != nullptr) averages->begin_join(options);
  averages_ = averages;
  backwards_ = 1;
  backwards_ = backwards();  // none where there are no gradients
  join_ = ZeroJoinRun{.options = options, .present = group.world_size()};
  const auto leave = [&] {
    join_.reset();
    if (gradients_) gradients_->set_divisor(group.world_size());
    if (averages != nullptr) averages->end_join();
    averages_ = nullptr;
  };
  try {
    body();
    join_->has_ended = true;
    bool was_last = true;
    while (shadow(update)) was_last = false;
    const at::Tensor last =
        at::full({1}, was_last ? group.rank() : -1, at::kLong).to(group.device());
    group.all_reduce(last, c10d::ReduceOp::MAX);
    broadcast(all_buffers_, static_cast<int>(last.item<int64_t>()));  // weights are alike already
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

}  // namespace muster::parallel
