// --batch-size auto: steps of some sizes, on copies of the run that are thrown away.
#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <utility>

#include <ATen/ops/tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/own_failure.h"
#include "muster/memory/allocator/counters.h"
#include "muster/memory/batch/batch_finder.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/guard/oom.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/what_of.h"
#include "muster/train/device/memory_report.h"
#include "muster/train/loop/batch_find.h"
#include "muster/train/loop/memory_advice.h"
#include "muster/train/loop/parameter_groups.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/training.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

/// The optimizer has its state after the first; batches are ahead in the third.
constexpr int64_t kProbeSteps = 3;

/// Only steps: nothing is validated, saved or written. A step that does not fit is the end of the
/// probe, on all ranks.
FitPlan probe_plan(const FitPlan& plan, int64_t samples) {
  FitPlan probe = plan;
  FitOptions& options = probe.options;
  options.lr.search.clear();
  options.val_check_interval = options.checkpoint_every = options.patience = 0;
  options.max_time = 0;
  options.tensorboard = "off";
  options.test_weights = "last";
  options.log_every = std::numeric_limits<int64_t>::max();
  options.drop_last = true;  // each step is of a whole batch, whose time is measured
  // What a schedule counts are the steps of the batch that is not known yet.
  options.lr_schedule = probe.schedule_name = "constant";
  probe.schedule_params.clear();
  if (options.on_oom == "fail") options.on_oom = "split-unequal";
  return with_batch_size(probe, samples);
}

int64_t replicas_of(const FitPlan& plan) { return plan.world_size / plan.ranks_per_replica; }

/// Into so many pieces a replica's batch is cut, and batches are tried that divide by it: a sample
/// more in one piece would take the memory of as many more in all.
int64_t pieces_of(const FitPlan& plan) {
  const StrategyEntry& strategy = strategies().at(plan.strategy_name);
  return strategy.batch_pieces == nullptr ? 1 : strategy.batch_pieces(plan.strategy_params);
}

/// The greatest of each number over the ranks.
std::vector<double> greatest(const distributed::ProcessGroup& group, std::vector<double> numbers) {
  if (group.world_size() == 1) return numbers;
  const at::Tensor all = at::tensor(numbers, at::kDouble).to(group.host_device());
  group.all_reduce(all, c10d::ReduceOp::MAX);
  const at::Tensor here = all.cpu();
  return {here.const_data_ptr<double>(), here.const_data_ptr<double>() + here.numel()};
}

void wait_for(c10::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// One probe, on this rank. `stopped` is set where the user wants no more.
class BatchMeasure {
 public:
  BatchMeasure(const FitRequest& run, const distributed::ProcessGroup& group)
      : run_(run), group_(group), device_(device_of_rank(run.plan, group.rank())) {}

  memory::BatchProbe of(int64_t batch_per_replica) {
    Attempt made = attempt(batch_per_replica, run_.plan.strategy_found);
    // A cut that is fast and should have had room, but for letters that wait, say. Another one may have it.
    if (made.failed && made.least) made = attempt(batch_per_replica, made.least->record);
    found_of_strategy_[batch_per_replica] = std::move(made.seen.strategy);
    const std::vector<double> all =
        greatest(group_, {made.seen.peak, made.seen.forward, made.seen.seconds});
    // Larger batches are cut so that they fit: where these end is told by what must be held.
    const double share = made.least ? made.least->share : 1;
    return {.batch = batch_per_replica,
            .fits = !made.failed,
            .bytes = share * all[0],
            .forward = share * all[1],
            .seconds = all[2]};
  }

  /// Bytes for all that a step takes, on the rank that has least.
  double limit() const {
    const auto own = static_cast<double>(tensor::free_bytes_of(device_)) +
                     static_cast<double>(memory::device_counters(device_).current);
    return -greatest(group_, {-own})[0];
  }
  bool stopped() const { return stopped_; }
  /// What would help the smallest batch that did not fit, by a rank that had no room for it; empty: none
  /// knows. Alike on all ranks.
  std::string advice() const {
    for (const std::string& of_rank : group_.all_gather_text(advice_))
      if (!of_rank.empty()) return of_rank;
    return "";
  }
  /// Strategy::record() of the probe of that size, which the run goes on with.
  Json found_of_strategy(int64_t batch_per_replica) const {
    return found_of_strategy_.at(batch_per_replica);
  }

 private:
  struct Attempt {
    detail::ProbeSeen seen;
    bool failed = false;
    bool has_left = false;  // the probes' group
    std::chrono::system_clock::time_point failed_at;
    std::optional<LeastMemory> least;
  };

  Attempt attempt(int64_t batch_per_replica, const Json& record) {
    FitRequest probe{.task = run_.task,
                     .data = run_.data,
                     .plan = probe_plan(run_.plan, batch_per_replica * replicas_of(run_.plan)),
                     .output = {},
                     .callbacks = {.stop_requested = run_.callbacks.stop_requested}};
    probe.plan.strategy_found = record;
    Attempt made;
    std::exception_ptr error;
    try {
      probe_in_group(probe, made);
    } catch (...) {
      error = std::current_exception();
    }
    agree(error, made);
    give_back();
    stopped_ |= made.seen.stopped;
    return made;
  }

  /// In a group of its own, which this rank leaves with an error that the others may not hear of: they
  /// would wait for it in the middle of a step. That a step does not fit the guard has told them all.
  void probe_in_group(const FitRequest& probe, Attempt& made) {
    // Dropped, as the trainer is, while an error leaves: to others this rank has failed then.
    std::optional<distributed::ProcessGroup> group = std::exchange(group_of_probes_, std::nullopt);
    if (!group) group = group_.world_size() > 1 ? group_.split(0, group_.rank()) : group_;
    std::optional<detail::Trainer> trainer;  // refers to the probe
    try {
      memory::reset_device_peak(device_);
      trainer.emplace(probe, *group).begin();
      // Of steps that the run will split, batches stay until they are made.
      made.seen = trainer->probe(kProbeSteps, run_.plan.options.on_oom != "fail");
    } catch (...) {
      if (trainer) made.least = trainer->least_memory();
      if (trainer) take_advice(probe.plan, *trainer);
      made.failed = trainer && trainer->memory_ran_out();
      if (!made.failed) {
        made.has_left = true;
        made.failed_at = std::chrono::system_clock::now();
        if (group_.world_size() > 1) group->leave(tensor::what_of(std::current_exception()));
        throw;
      }
    }
    if (trainer) made.least = trainer->least_memory();
    trainer.reset();
    group_of_probes_ = std::move(group);
  }

  /// In the handler of a probe's error: of the smallest batch that there is to be advised on.
  void take_advice(const FitPlan& probe, detail::Trainer& trainer) {
    if (!memory::is_oom(std::current_exception())) return;
    if (!advice_.empty() && probe.options.batch_size > advised_) return;
    const auto report = explained_memory({.device = device_,
                                          .folder = {},
                                          .owned = trainer.owned_memory(),
                                          .freed = trainer.dropped_memory()});
    FitPlan plan = run_.plan;
    plan.batch_per_rank = probe.batch_per_rank;
    MemoryFailure failure = trainer.memory_failure(report ? &*report : nullptr);
    if (failure.in == MemoryFailure::In::kStep) failure.in = MemoryFailure::In::kSmallest;
    failure.is_room_in_batches = false;
    advice_ = memory_advice(plan, failure);
    advised_ = probe.options.batch_size;
  }

  /// A probe fits where it fits on all ranks: memory may run out on one of them alone, and anywhere: for
  /// the batch itself, in the optimizer, before the first step. Another error is thrown; of several the
  /// first in time is the cause, and what those say that heard of it comes second.
  void agree(const std::exception_ptr& error, Attempt& made) {
    if (error) made.failed = memory::is_oom(error) || is_oom_of_first_rank(error);
    const double earliness =
        error ? -std::chrono::duration<double>(made.failed_at.time_since_epoch()).count()
              : -std::numeric_limits<double>::max();
    enum Field : int64_t { kRanOut, kFailed, kLeft, kKnowsNoLeast, kEarliest };
    const std::vector<double> all = greatest(group_,
                                             {made.failed ? 1.0 : 0.0,
                                              error ? 1.0 : 0.0,
                                              made.has_left ? 1.0 : 0.0,
                                              made.least ? 0.0 : 1.0,
                                              earliness});
    if (all[kLeft] > 0) group_of_probes_.reset();
    if (all[kKnowsNoLeast] > 0) made.least.reset();
    made.failed = all[kRanOut] > 0;
    if (made.failed || all[kFailed] == 0) return;
    const int ranks = group_.world_size();
    const bool is_cause = error && earliness == all[kEarliest];
    const int cause =
        ranks - static_cast<int>(greatest(group_, {is_cause ? ranks - group_.rank() : 0.0})[0]);
    if (is_cause) std::rethrow_exception(error);
    const std::exception_ptr told =
        error ? error
              : std::make_exception_ptr(
                    environment_error({.refused = "the search for a batch size",
                                       .rule = concat("rank ", cause, " failed in a probe")}));
    group_.note_told_failure(cause, tensor::what_of(told));
    std::rethrow_exception(told);
  }

  void give_back() const {
    wait_for(device_);
    c10::getDeviceAllocator(device_.type())->emptyCache();
  }

  const FitRequest& run_;
  const distributed::ProcessGroup& group_;
  c10::Device device_;
  std::optional<distributed::ProcessGroup> group_of_probes_;  // until a rank leaves it
  bool stopped_ = false;
  std::string advice_;  // of this rank's last
  int64_t advised_ = 0;
  std::map<int64_t, Json> found_of_strategy_;  // by batch
};

/// Throws on all ranks, whose probes were the same, where nothing fits.
memory::BatchFound found_by(const memory::BatchFinder& finder,
                            const BatchMeasure& measure,
                            const distributed::ProcessGroup& group) {
  try {
    return finder.found();
  } catch (const Error& error) {
    ErrorText text = error.text();
    if (const std::string advice = measure.advice(); !advice.empty()) text.hint = advice;
    distributed::note_common_failure(group);
    throw environment_error(std::move(text));
  }
}

/// So that an epoch's last batch is not of a sample or none on some rank, which batch normalisations
/// cannot train on.
/// `pieces`: into which the strategy cuts a replica's batch.
int64_t with_a_last_batch(const FitPlan& plan, int64_t samples, int64_t pieces) {
  const int64_t step = replicas_of(plan) * pieces;
  for (int64_t less = samples; less > samples - samples / 20 && less > 2 * step; less -= step) {
    const int64_t last = plan.train_samples % less;
    if (plan.options.drop_last || last == 0 || last >= 2 * step) return less;
  }
  return samples;
}

}  // namespace

namespace detail {

ProbeSeen Trainer::probe(int64_t steps, bool keeps_batches) {
  ProbeSeen seen;
  guard_->fail_at_once();
  keeps_batches_ = keeps_batches;
  held_after_forward_ = 0;
  for (const auto& part : parts_) {
    part->strategy().take_most_memory();
    set_most_momentum(plan_, part->strategy().optimizer());
  }
  groups_->train_mode();
  for (int64_t made = 0; made < steps;) {
    batches_.begin(loader_->epoch(position_.epoch, 0));
    while (position_.samples < plan_.samples_per_epoch && made < steps) {
      wait_for(device_);
      const auto started = Clock::now();
      train_step();
      hear_all();
      wait_for(device_);
      seen.seconds = std::chrono::duration<double>(Clock::now() - started).count();
      ++made;
      if (stop_wished_) {
        seen.stopped = true;
        return seen;
      }
    }
    ++position_.epoch;
    position_.samples = 0;
  }
  seen.peak = static_cast<double>(std::max(peak_before_, memory::device_counters(device_).peak));
  seen.forward = static_cast<double>(*held_after_forward_);
  seen.strategy = parts_[0]->strategy().record();
  return seen;
}

/// Of a strategy that makes forward and backward in one there is no moment between the two: the most
/// that both hold stands for it, which rises with the batch as well, whatever the optimizer takes.
void Trainer::begin_pieces_memory() {
  if (!held_after_forward_) return;
  peak_before_ = std::max(peak_before_, memory::device_counters(device_).peak);
  memory::reset_device_peak(device_);
}

void Trainer::end_pieces_memory() {
  if (!held_after_forward_) return;
  held_after_forward_ = std::max(*held_after_forward_, memory::device_counters(device_).peak);
}

bool Trainer::memory_ran_out() const { return guard_ && guard_->state().failures > 0; }

std::optional<LeastMemory> Trainer::least_memory() const {
  return parts_.empty() ? std::nullopt : parts_[0]->strategy().least_memory();
}

}  // namespace detail

std::optional<FitPlan> find_batch(const FitRequest& run, const distributed::ProcessGroup& group) {
  const FitPlan& plan = run.plan;
  BatchMeasure measure(run, group);
  const int64_t replicas = replicas_of(plan), pieces = pieces_of(plan);
  const int64_t most = std::max<int64_t>(1, plan.train_samples / replicas);
  // A batch normalisation may not train on one sample.
  const auto task = make_seeded(run.task, plan.options.seed);
  ParameterGroups(*task, plan.options).train_mode();
  const bool needs_two = !memory::Guard::batch_layer(*task->module()).empty();
  const int64_t least = std::min<int64_t>(most, needs_two ? 2 : 1);
  // Of fewer samples a strategy makes fewer pieces.
  const memory::BatchLimits limits{.bytes = measure.limit(),
                                   .most = most,
                                   .multiple_of = std::min(most, least * pieces),
                                   .least = least};
  memory::BatchFinder finder(limits);
  while (const std::optional<int64_t> batch = finder.next()) {
    finder.tell(measure.of(*batch));
    if (measure.stopped()) return std::nullopt;
  }
  const memory::BatchFound found = found_by(finder, measure, group);
  const bool wants_fastest = plan.options.batch_size.search != "auto";
  const int64_t per_replica = wants_fastest ? found.fastest : found.largest;
  const int64_t cut_into = per_replica % pieces == 0 ? pieces : 1;
  FitPlan out = with_batch_size(plan, with_a_last_batch(plan, per_replica * replicas, cut_into));
  out.strategy_found = measure.found_of_strategy(per_replica);
  on_first_rank(group, [&] {
    if (!run.callbacks.note) return;
    run.callbacks.note(concat("batch size ",
                              out.options.batch_size,
                              " found (",
                              memory::text_of(found, limits),
                              replicas > 1 ? ", of each rank)" : ")",
                              found.is_most ? "; the data ends it, not the memory" : ""));
  });
  return out;
}

}  // namespace muster::train
