// --on-oom split: steps of fit() that are made again, in smaller micro-batches, when memory runs out.
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/memory/guard/guard.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/loop/start_checks.h"
#include "muster/train/loop/training.h"
#include "muster/train/replicas/batch_pieces.h"
#include "muster/train/replicas/step_memory.h"
#include "muster/train/task/step.h"

namespace muster::train::detail {

// Note [Split steps]
// A step's batches are kept until it is made, and memory::Guard runs forward and backward over their
// micro-batches, over all batches of an accumulation together. Each has the factor that Note
// [Weighted batches] gives its samples, so that a step of --batch-size 32 in pieces of 8 is to the
// bit the one of --batch-size 8 --accumulate-grad-batches 4. Nothing collective is within: gradients
// are averaged, and the step's report is posted, when all ranks have passed. Rows that a batch has
// no more of than others (a batch whose size does not divide) make pieces that differ by one.
// A pipeline takes piece after piece; it is collective throughout, and fails on all ranks together.
// What a task counts by itself in train_step() is counted again with each attempt.

void Trainer::make_guard() {
  if (plan_.options.on_oom == "fail") return;
  check_splits(*task_, plan_);
  // A batch normalisation may not train on one sample.
  const bool needs_two = !memory::Guard::batch_layer(module()).empty();
  memory::GuardOptions options{.smallest = needs_two ? 2 : 1,
                               .may_differ = plan_.options.on_oom == "split-unequal",
                               .generators = {generator_}};
  if (group_.world_size() > 1) options.group = group_;
  options.heard = [this](const memory::GuardEvent& event) {
    log_.note(concat("step ", position_.step + 1, ": ", memory::text_of(event)));
  };
  guard_ = std::make_unique<memory::Guard>(module(), std::move(options));
}

/// Rows of a share, with the weight and the factor that are theirs.
Trainer::Share Trainer::piece_of(const Share& share, const memory::MicroBatch& part) const {
  if (part.is_whole) return share;
  Share piece{.batch = rows_of(share.batch,
                               part.begin,
                               part.end,
                               concat("--on-oom ", plan_.options.on_oom),
                               "take a smaller --batch-size, or --on-oom fail"),
              .is_stand_in = share.is_stand_in};
  if (share.weight == 0) return piece;
  piece.weight = of_task("weight", [&] {
    return weight_of(*task_, task_->has_own_weights() ? on_host(piece.batch) : piece.batch);
  });
  piece.factor = share.factor * (piece.weight / share.weight);
  return piece;
}

/// The weights of a batch's pieces, as the task says them, are to be those of the batch.
void Trainer::check_weights_of_pieces(const Share& share, double of_pieces) const {
  constexpr double kRounding = 1e-9;
  if (std::abs(of_pieces - share.weight) <= kRounding * share.weight) return;
  throw usage_error(
      {.refused = concat("task ", task_->name(), ": the weight of a batch"),
       .rule = "the sum of its parts' weights, so that --on-oom can split it",
       .value = concat(shortest(share.weight), ", of its parts ", shortest(of_pieces)),
       .hint = "take --on-oom fail"});
}

/// Of all batches of the step, or of one, the last of them or not, of a step that is not made again.
void Trainer::backward_guarded(size_t index,
                               const std::vector<Share>& shares,
                               bool last,
                               StepSums& sums) {
  std::vector<int64_t> rows;
  for (const Share& share : shares) rows.push_back(share.batch.size());
  double of_pieces = 0;
  const auto pass = [&](const memory::MicroBatch& part) {
    if (part.is_first() && keeps_batches_) sums = StepSums(metrics_, device_);
    const Share& share = shares[static_cast<size_t>(part.batch)];
    const Share piece = piece_of(share, part);
    // A piece in which nothing counts (padding alone) may have a loss of 0 / 0: NaN, whatever its weight.
    // Its batch has another one. A share that counts as nothing as a whole takes part all the same.
    if (piece.weight > 0 || share.weight == 0) backward(index, piece, /*last=*/false, sums);
    of_pieces = part.begin == 0 ? piece.weight : of_pieces + piece.weight;
    if (part.end == share.batch.size()) check_weights_of_pieces(share, of_pieces);
  };
  guard_->step(rows, [&](const memory::MicroBatch& part) {
    try {
      pass(part);
    } catch (...) {
      note_gradients();  // which the guard drops
      throw;
    }
  });
  dropped_.clear();
  if (!last) return;
  timeline_.begin(diagnose::Phase::kBackward);
  parts_[index]->strategy().average_gradients();
  post(index, sums);
}

void Trainer::note_gradients() noexcept {
  try {
    dropped_ = gradient_memory(module());
  } catch (...) {  // the step has an error to tell already
  }
}

Json Trainer::guard_state() const {
  const memory::GuardState& state = guard_->state();
  return {{"micro_batch", state.micro_batch},
          {"clean_steps", state.clean_steps},
          {"wait_steps", state.wait_steps},
          {"failures", state.failures}};
}

/// A run that goes on, goes on with the size that it has found.
void Trainer::load_guard(const Json& saved) {
  if (!guard_ || saved.is_null()) return;
  memory::GuardState state = guard_->state();
  state.micro_batch = saved.value("micro_batch", state.micro_batch);
  state.clean_steps = saved.value("clean_steps", state.clean_steps);
  state.wait_steps = saved.value("wait_steps", state.wait_steps);
  state.failures = saved.value("failures", state.failures);
  guard_->load_state(state);
  if (state.micro_batch > 0)
    log_.note(concat("steps are made in micro-batches of at most ",
                     state.micro_batch,
                     state.micro_batch == 1 ? " sample" : " samples",
                     " of a rank, as the run has found when memory ran out"));
}

/// What memory has done to the run; nothing if it has never run out.
std::optional<MemoryFailures> Trainer::memory_failures() const {
  if (!guard_ || guard_->state().failures == 0) return std::nullopt;
  return MemoryFailures{.failures = guard_->state().failures,
                        .micro_batch = guard_->state().micro_batch};
}

}  // namespace muster::train::detail
