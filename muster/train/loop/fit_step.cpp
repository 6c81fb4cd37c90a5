// One optimizer step of fit().
#include <algorithm>

#include <ATen/ops/full.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/scope.h"
#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/training.h"
#include "muster/train/task/step.h"

namespace muster::train::detail {

// Note [Weighted batches]
// An optimizer step takes the next `samples_per_step` samples of the epoch's order, or what is left
// of it, in one or more batches shared by the ranks. Each rank and batch adds its mean loss times
// (its weight * world size / weight of the step), and DDP divides by the world size (a pipeline's
// ranks are one in both): the gradient is
// the mean over exactly the samples of the step, also where the last shares differ by one. With
// equal shares the factor is 1 and no multiplication is made. A rank that has no sample left in the
// last batch takes part with factor 0, so that the collectives match. The weight of a batch is its
// number of samples, which all ranks know for all; a task's own weight (Task::weight) is summed over
// the ranks before the first forward of the step.
void Trainer::train_step() {
  const auto started = Clock::now();
  timeline_.begin_step(position_.step);
  const int64_t samples =
      std::min(plan_.samples_per_step, plan_.samples_per_epoch - position_.samples);
  const int64_t batch_size = plan_.options.batch_size;
  const int64_t batches = (samples + batch_size - 1) / batch_size;
  const optim::ScheduleValue rate =
      schedule_->at({.step = position_.step, .epoch = position_.epoch});
  made_.push_back({.before = position_, .answers_due = parts_.size(), .sum = Meter(metrics_)});
  step_made_ = false;
  if (parts_.size() == 1 && !task_->has_own_weights()) {
    train_part(0, rate, batches, [&](int64_t) {
      Share share = next_share();
      share.factor = factor_of(share.weight, static_cast<double>(samples));
      return share;
    });
  } else {
    const std::vector<Share> shares = all_shares(batches, samples);
    for (size_t part = 0; part < parts_.size(); ++part)
      train_part(part, rate, batches, [&](int64_t i) { return shares[static_cast<size_t>(i)]; });
  }
  if (ema_ && step_made_) ema_->update();
  timeline_.end_step();
  log_.count_step(samples, std::chrono::duration<double>(Clock::now() - started).count());
  after_step(samples);
}

double Trainer::factor_of(double weight, double of_all) const {
  return weight * static_cast<double>(group_.world_size() / plan_.ranks_per_replica) / of_all;
}

/// This rank's share of the next batch.
Trainer::Share Trainer::next_share() {
  timeline_.begin(diagnose::Phase::kDataWait);
  std::optional<data::ArrivedBatch> next = of_task("the samples", [&] { return batches_.next(); });
  if (!next) {
    if (!stand_in_) stand_in_ = batches_.place(stand_in_batch(*data_.train));
    return {.batch = *stand_in_, .is_stand_in = true};
  }
  if (log_.wants_images())
    log_.images(of_task("images", [&] { return task_->images(next->on_host()); }), position_);
  const double weight = of_task("weight", [&] { return weight_of(*task_, next->on_host()); });
  return {.batch = std::move(next->batch), .weight = weight};
}

/// The same of all batches of the step.
std::vector<Trainer::Share> Trainer::all_shares(int64_t batches, int64_t samples) {
  std::vector<Share> shares;
  double own = 0;
  for (int64_t i = 0; i < batches; ++i) {
    shares.push_back(next_share());
    own += shares.back().weight;
  }
  double all = static_cast<double>(samples);
  if (task_->has_own_weights()) {
    const at::Tensor sum = at::full({1}, own, at::kDouble).to(group_.device());
    if (group_.world_size() > 1) group_.all_reduce(sum);
    all = sum.item<double>() / static_cast<double>(plan_.ranks_per_replica);
  }
  if (!(all > 0)) {
    throw usage_error(
        {.refused = concat("task ", task_->name(), ": the weight of step ", position_.step + 1),
         .rule = "above 0 for all ranks and batches together",
         .value = shortest(all)});
  }
  for (Share& share : shares) share.factor = factor_of(share.weight, all);
  return shares;
}

/// Forward and backward of a part over the step's batches, and its optimizer's step.
void Trainer::train_part(size_t index,
                         const optim::ScheduleValue& rate,
                         int64_t batches,
                         const std::function<Share(int64_t)>& share) {
  TrainedPart& part = *parts_[index];
  const auto turn = turn_of(index);
  apply(rate, part.optimizer());
  part.optimizer().zero_grad();
  if (index == 0) made_.back().lr = part.optimizer().lr();
  made_.back().gradient_norm.reset();  // of a step that is left out there is none
  StepSums local(metrics_, device_);
  if (guard_ && keeps_batches_) {
    std::vector<Share> shares;
    for (int64_t i = 0; i < batches; ++i) shares.push_back(share(i));
    backward_guarded(index, shares, /*last=*/true, local);
  } else if (guard_) {
    for (int64_t i = 0; i < batches; ++i)
      backward_guarded(index, {share(i)}, i + 1 == batches, local);
  } else {
    for (int64_t i = 0; i < batches; ++i) backward(index, share(i), i + 1 == batches, local);
  }
  timeline_.end();
  step_report_->send_answers();
  hear(is_late() ? 1 : 0);
  timeline_.begin(diagnose::Phase::kOptimizer);
  update(part, local);
}

/// The optimizer's step, unless a gradient or, with a loss scale, a loss is not finite: decided alike
/// on all ranks, before any of them changes a weight.
void Trainer::update(TrainedPart& part, const StepSums& local) {
  LossScaler& scaler = part.scaler();
  const double scale = scaler.scale();
  const auto make = [&] {
    const memory::Scope scope("optimizer");
    updates_ = true;
    clip_gradients(part);
    part.optimizer().step();
    updates_ = false;
  };
  const bool made =
      is_late() ? scaler.step(part.optimizer(), local.loss(), make)
                : scaler.step(part.optimizer(), step_report_->ranks_not_finite() == 0, make);
  step_made_ |= made;
  if (made || !scaler.exhausted()) return;
  hear_all();
  divergence_.end(
      in(made_.back()),
      {.what = step_report_->ranks_not_finite() > 0 ? "the loss" : "a gradient",
       .value = concat("NaN or infinity at every loss scale down to ", shortest(scale))});
}

/// Forward and backward of one batch, whose samples are added to `sums`. The last batch of a step
/// averages the gradients over the ranks, and posts what the ranks tell each other.
void Trainer::backward(size_t index, const Share& share, bool last, StepSums& sums) {
  TrainedPart& part = *parts_[index];
  if (part.strategy().trains_in_pieces()) {
    backward_in_pieces(index, share, sums);
    if (last) post(index, sums);
    return;
  }
  const auto run = [&] {
    timeline_.begin(diagnose::Phase::kForward);
    goes_back_ = false;  // of an attempt that was given up
    StepResult result;
    {
      const PrecisionGuard guard(plan_.precision.kind, device_of(share.batch));
      const parallel::BatchNormsOverRanks norms(plan_.options.sync_batch_norm ? &group_ : nullptr,
                                                /*counts=*/!share.is_stand_in);
      std::optional<tensor::UnitCallScope> units;
      if (checkpoints_) units.emplace(*checkpoints_);
      const memory::Scope scope("forward");
      result = part.strategy().forward([&] {
        return of_task("train_step", [&] {
          return task_->train_step(share.batch, context(Phase::kTrain, index));
        });
      });
    }
    of_task("train_step", [&] {
      check_result(*task_, result, /*trains=*/true);
      if (share.weight > 0) add_to(sums, *task_, result, share.weight);
    });
    if (held_after_forward_)
      held_after_forward_ =
          std::max(*held_after_forward_, memory::device_counters(device_).current);
    if (last) post(index, sums);
    timeline_.begin(diagnose::Phase::kBackward);
    const memory::Scope scope("backward");
    goes_back_ = true;
    const auto go_back = [&] {
      part.scaler().scale(share.factor == 1 ? result.loss : result.loss * share.factor).backward();
    };
    if (plan_.options.detect_anomaly) {
      of_task("backward", go_back);
    } else {
      go_back();
    }
    goes_back_ = false;
  };
  if (last) {
    run();
  } else {
    part.strategy().accumulate(run);
  }
}

/// The same where the strategy makes both, a piece of the batch after the other.
void Trainer::backward_in_pieces(size_t index, const Share& share, StepSums& sums) {
  TrainedPart& part = *parts_[index];
  timeline_.end();
  const double started = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  const auto pass = [&](const data::Batch& piece) {
    return of_task("train_step", [&] {
      StepResult result = task_->train_step(piece, context(Phase::kTrain, index));
      check_result(*task_, result, /*trains=*/true);
      return result;
    });
  };
  const auto weight = [&](const data::Batch& piece) {
    return weight_of(*task_, task_->has_own_weights() ? on_host(piece) : piece);
  };
  const PrecisionGuard guard(plan_.precision.kind, device_of(share.batch));
  double scale = share.factor;
  if (part.scaler().enabled()) {  // which hears of the step by this, too
    const at::Tensor factor = at::full({}, scale, at::device(device_).dtype(at::kDouble));
    scale = part.scaler().scale(factor).item<double>();
  }
  begin_pieces_memory();
  const std::vector<WeighedResult> seen =
      part.strategy().forward_backward({.batch = share.batch,
                                        .pass = pass,
                                        .weight = weight,
                                        .scale = scale,
                                        .step = position_.step});
  end_pieces_memory();
  mark_stages(part.strategy().last_spans(), started);
  if (share.weight == 0) return;
  of_task("train_step", [&] {
    for (const auto& [result, of_piece] : seen)
      if (of_piece > 0) add_to(sums, *task_, result, of_piece);
  });
}

/// What a rank of a pipeline did since `started_s`, and how long it waited for others in between.
void Trainer::mark_stages(const std::vector<pipeline::Span>& spans, double started_s) {
  for (const pipeline::Span& span : spans) {
    if (!pipeline::is_compute(span.action.kind)) continue;
    timeline_.add(diagnose::Phase::kStageWait, started_s, span.start_s);
    timeline_.add(span.action.kind == pipeline::ActionKind::kForward ? diagnose::Phase::kForward
                                                                     : diagnose::Phase::kBackward,
                  span.start_s,
                  span.end_s);
    started_s = span.end_s;
  }
}

/// What the ranks tell each other of a step, or of a part's.
void Trainer::post(size_t index, const StepSums& sums) {
  const bool is_last = index + 1 == parts_.size();
  const bool stop = is_last && callbacks_.stop_requested && callbacks_.stop_requested();
  step_report_->post({.stop = stop,
                      .hook_failed = hooks_.failed(),
                      .time_is_over = is_last && passes_time_limit()},
                     sums);
}

void Trainer::clip_gradients(TrainedPart& part) {
  const double limit = plan_.options.gradient_clip_val;
  if (limit <= 0) return;
  if (plan_.options.gradient_clip_algorithm == "value")
    return part.strategy().clip_gradient_values(limit);
  made_.back().gradient_norm.emplace(part.strategy().clip_gradients(limit));
  if (!is_late()) check_norm(made_.back());
}

}  // namespace muster::train::detail
