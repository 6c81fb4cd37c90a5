#include "muster/train/loop/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/device/generators.h"
#include "muster/tensor/device/math_modes.h"
#include "muster/tensor/unseen_taps.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/loop/anomaly_mode.h"
#include "muster/train/loop/batch_find.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/lr_find.h"
#include "muster/train/loop/memory_advice.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/start_checks.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/training.h"
#include "muster/train/progress/messages.h"
#include "muster/train/replicas/first_rank.h"
#include "muster/train/replicas/move_but_units.h"
#include "muster/train/task/step.h"

namespace muster::train {
namespace {

void remark_shared_generator(const FitPlan& plan, RunLog& log) {
  if (plan.threads > 1)
    log.note(
        "the task's module draws from torch's default generator, which ranks that are threads "
        "share: what it draws differs from run to run (see Task::set_generator)");
}

}  // namespace

namespace detail {

Trainer::Trainer(const FitRequest& run, const distributed::ProcessGroup& group)
    : run_(run),
      plan_(run.plan),
      device_(device_of_rank(plan_, group.rank())),
      group_(group),
      output_(run.output),
      hooks_(run.callbacks, group, position_),
      callbacks_(hooks_.callbacks()),
      owned_(run.owned),
      resume_(run.resume ? &*run.resume : nullptr),
      data_(
          {.train = run.data.train,
           .validation = first_batches(run.data.validation, plan_, plan_.options.limit_val_batches),
           .test = first_batches(run.data.test, plan_, plan_.options.limit_test_batches)}),
      best_({.patience = plan_.options.patience,
             .min_delta = plan_.options.min_delta,
             .wants_less = plan_.monitor_falls}),
      log_(plan_, run.output, group.rank() == 0, callbacks_),
      divergence_(plan_, group, log_, callbacks_),
      timeline_(
          run.callbacks.trace,
          group,
          [this](const std::string& line) { log_.note(line); },
          device_) {
  batches_.trace(timeline_.device_spans(), [this] { timeline_.batch_arrived(); });
}

void Trainer::begin() {
  using In = MemoryFailure::In;
  begin_on_rank(plan_, group_, run_.resume);
  this->make_task(run_.task);
  schedule_ = optim::make_schedule(plan_.options.lr_schedule, schedule_context(plan_, *metrics_));
  if (resume_ != nullptr) {
    check_task(*task_, *resume_);  // first: another task has other data, too
    check_same_data(plan_, *resume_);
  }
  data_.train = as_task_takes(*task_, data_.train);
  loader_ = make_loader(plan_, data_.train, group_);
  check_batches_on_ranks(*data_.train, group_);
  divergence_.begin(module());
  make_groups();
  make_guard();
  in_ = In::kParts;
  make_parts();
  in_ = In::kStep;
  make_checkpoints();
  measure_budget();
  in_ = In::kAverage;
  make_average();
  if (resume_ != nullptr) {
    in_ = In::kStep;
    rehearse();
    in_ = In::kState;
    restore(*resume_);
  }
  in_ = In::kStep;
  has_begun_ = true;
}

// Note [Rows of an end]
// Where a run ends before a row of its steps is due, it writes one and keeps their sums: one that goes
// on has them in its next row, as a run that never ended, and drops the one of the end. So it does with
// the row of a validation that was made to tell the caller of an end inside an epoch. What an earlier
// process owes, since it was interrupted in the very last step or killed behind its last checkpoint,
// the one that goes on writes there, though it has no step to make.

track::EndRows Trainer::earlier_end_rows() const {
  const bool goes_on = !finished();
  const bool was_validated = position_.samples == 0 || is_validated_after_step();
  const bool was_told = ended_at_ == position_.step && !goes_on;
  return {.train = goes_on && !window_meter_.empty(), .validate = !was_validated && !was_told};
}

/// Nothing is written before.
void Trainer::open_folder() {
  on_first_rank(group_, [&] {
    mine_ = open_run_folder(plan_, output_, resume_, owned_, log_);
    folder_ = owned_ != nullptr ? owned_ : mine_.get();
    log_.count_before(before_s_);
    if (resume_ != nullptr) log_.count_rows_before(resume_->position.step);
  });
  if (plan_.options.max_time > 0) time_is_over_ = from_first_rank(group_, passes_time_limit());
  on_first_rank(group_, [&] {
    if (callbacks_.folder_ready) callbacks_.folder_ready();  // first: Note [Config and plan]
    log_.open(resume_ != nullptr ? resume_->position.step : -1, *metrics_, earlier_end_rows());
    writer_.emplace(output_, plan_.options.keep_checkpoints);
  });
  has_folder_ = true;
}

StepContext Trainer::context(Phase phase, size_t part) const {
  return {.phase = phase, .part = part, .step = position_.step, .epoch = position_.epoch};
}

void Trainer::make_task(const TaskMaker& make) {
  try {
    task_ = make_seeded(make, plan_.options.seed);
  } catch (...) {
    rethrow_of_task(group_,
                    {.task = "",
                     .what = "the task's maker",
                     .when = "before the first step",
                     .names_itself = true});
  }
  module_ = task_->module();
  metrics_ = std::make_shared<const std::vector<Metric>>(task_->metrics());
  check_task_on_ranks(*task_, group_);
  // After its weights were drawn, which are so the same on every kind of device.
  if (!device_.is_cpu()) {
    if (strategies().at(plan_.strategy_name).places_units) {
      move_but_units(*task_, device_);
    } else {
      task_->move_to(device_);
    }
  }
  if (plan_.options.channels_last) tensor::to_channels_last(module());
  for (Meter* meter : {&epoch_meter_, &window_meter_}) *meter = Meter(metrics_);
  step_report_.emplace(group_, metrics_);
  // The same seed gave every rank the same weights; what a module draws later (dropout) differs.
  generator_ = tensor::new_generator(device_);
  if (!task_->set_generator(generator_)) {
    generator_ = tensor::default_generator(device_);
    remark_shared_generator(plan_, log_);
  }
  generator_.set_current_seed(static_cast<uint64_t>(plan_.options.seed) +
                              static_cast<uint64_t>(group_.rank()));
}

/// Which layers train is known from here on.
void Trainer::make_groups() {
  groups_.emplace(*task_, plan_.options);
  groups_->check_alike(group_);
  groups_->train_mode();
  if (const std::string line = groups_->line(); !line.empty()) log_.note(line);
  if (const std::string line = line_of_untrained(*task_); !line.empty()) log_.note(line);
}

void Trainer::make_parts() {
  std::vector<TaskPart> parts = parts_to_train(*task_, plan_);
  batches_.cast_floats(input_dtype_of(module()));
  for (TaskPart& part : parts) {
    ParameterRules rules = groups_->rules_of(*part.module, part.name);
    StrategyRequest request{.plan = plan_,
                            .module = std::move(part.module),
                            .group = group_,
                            .rules = std::move(rules),
                            .device = device_,
                            .generator = generator_,
                            .note = [this](const std::string& line) { log_.note(line); }};
    request.measures = [this](bool on) {
      in_ = on ? MemoryFailure::In::kCut : MemoryFailure::In::kParts;
    };
    request.example = [this, number = parts_.size()](int64_t samples) {
      return example_step(number, samples);
    };
    if (strategies().at(plan_.strategy_name).places_units && !device_.is_cpu())
      request.batch_bytes = bytes_of_batches();
    request.record =
        resume_ != nullptr ? resume_->loop.value(kStrategyKey, Json()) : plan_.strategy_found;
    parts_.push_back(std::make_unique<TrainedPart>(std::move(part.name), std::move(request)));
    if (const std::string line = parts_.back()->strategy().line(); !line.empty()) log_.note(line);
  }
  batches_.cast_floats(input_dtype_of(module()));
}

/// The task's step on the first samples of the training, which are read now.
std::function<StepResult()> Trainer::example_step(size_t part, int64_t samples) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(samples, data_.train->size())));
  std::iota(indices.begin(), indices.end(), 0);
  groups_->train_mode();
  const data::Batch batch = of_task("the samples", [&] { return data_.train->get(indices); });
  return [this, part, batch = batches_.place(batch)] {
    return of_task("train_step",
                   [&] { return task_->train_step(batch, context(Phase::kTrain, part)); });
  };
}

/// A backward whose gradients are dropped, where the strategy wants one; see
/// Strategy::wants_rehearsal.
void Trainer::rehearse() {
  groups_->train_mode();
  for (size_t part = 0; part < parts_.size(); ++part) {
    Strategy& strategy = parts_[part]->strategy();
    if (!strategy.wants_rehearsal()) continue;
    const data::Batch batch = batches_.place(stand_in_batch(*data_.train));
    const auto turn = turn_of(part);
    drop_step(strategy, [&] {
      return of_task("train_step",
                     [&] { return task_->train_step(batch, context(Phase::kTrain, part)); });
    });
  }
}

/// A forward and its backward, whose gradients are dropped.
void Trainer::drop_step(Strategy& strategy, const std::function<StepResult()>& pass) {
  StepResult result;
  {
    const PrecisionGuard guard(plan_.precision.kind, device_);
    std::optional<tensor::UnitCallScope> units;  // around the strategy's own
    if (checkpoints_) units.emplace(*checkpoints_);
    result = strategy.forward(pass);
  }
  check_result(*task_, result, /*trains=*/true);
  result.loss.backward();
  strategy.optimizer().zero_grad();
}

/// While it lives, only the parameters of that part require gradients.
std::shared_ptr<void> Trainer::turn_of(size_t part) {
  if (parts_.size() == 1) return nullptr;
  const auto set = [this](size_t own, bool on) {
    for (size_t other = 0; other < parts_.size(); ++other) {
      if (other != own) parts_[other]->require_gradients(on);
    }
  };
  set(part, false);
  return {this, [set, part](void*) { set(part, true); }};
}

/// All epochs or steps that there are to be.
bool Trainer::is_complete() const {
  const int64_t max_steps = plan_.options.max_steps;
  return position_.epoch >= plan_.options.epochs || (max_steps > 0 && position_.step >= max_steps);
}

bool Trainer::finished() const {
  return is_complete() || stops_early() || (time_is_over_ && is_past_minimum());
}

// Note [Time limit]
// As that of Lightning's Timer, it is of the whole run: a checkpoint has the seconds that were worked
// on it, and a run that goes on counts on from there. Rank 0's clock counts for all. It is looked at
// in each step, and the answer travels with the step's report: so all ranks end after the same step,
// on a device one step later, and none by a clock of its own. The run ends as one that --max-steps
// ends, inside an epoch or not: saved, tested, exit code 0.
bool Trainer::passes_time_limit() const {
  const double limit = plan_.options.max_time;
  return limit > 0 && group_.rank() == 0 && log_.seconds() >= limit;
}

FitResult Trainer::run() {
  try_validation();
  open_folder();
  if (resume_ != nullptr && is_complete()) log_.note(nothing_left_line(plan_, position_));
  FitResult result;
  while (!finished() || owes_epoch_end()) {
    if (train_epoch() == Step::kStopped) {
      result.interrupted = true;
      break;
    }
  }
  const bool stops = stops_early() && !is_complete();
  const bool is_at_once = position_.step == started_after_;
  if (stops) log_.note(early_stop_line(plan_, best_, best_step_, is_at_once));
  hear_all();
  if (time_is_over_ && !stops && !is_complete()) log_.note(time_limit_line(plan_, position_));
  if (!result.interrupted) end_inside_epoch();
  if (last_saved_ != position_.step) save();
  if (!result.interrupted) tell_loader_verdict();
  if (!result.interrupted)
    for (const auto& part : parts_)
      for (const std::string& line : part->strategy().end_lines()) log_.note(line);
  if (!result.interrupted) test(result);
  check_hooks();
  result.steps = position_.step;
  if (scaler().enabled()) result.skipped_steps = skipped_steps();
  result.memory = memory_failures();
  settle_folder();
  on_first_rank(group_, [&] {
    result.checkpoint = writer_->wait();
    if (result.checkpoint.empty()) result.checkpoint = find_checkpoint(output_);
  });
  result.seconds = log_.seconds();
  timeline_.write_once();  // once the state is on the disk
  result.has_page = log_.end_run(result);
  check_hooks();
  return result;
}

}  // namespace detail

namespace {

FitRequest with_plan(const FitRequest& run, const FitPlan& plan) {
  FitRequest out = run;
  out.plan = plan;
  return out;
}

/// The run itself, of which nothing is to be searched for any more.
FitResult fit_found(const FitRequest& run, const distributed::ProcessGroup& group) {
  std::optional<detail::Trainer> trainer;
  try {
    trainer.emplace(run, group);
    trainer->begin();
    return trainer->run();
  } catch (...) {
    if (!trainer) throw;
    if (trainer->has_begun() && is_device_assertion(std::current_exception()))
      rethrow_with_index(run, group, trainer->steps_under_way());
    detail::rethrow_with_memory(run,
                                group,
                                *trainer,
                                !trainer->has_begun()   ? "at the start"
                                : trainer->steps() == 0 ? "in the first step"
                                                        : concat("after step ", trainer->steps()));
  }
}

/// A run that goes on keeps the rate that its start has found.
FitResult fit_with_kept_rate(const FitRequest& run, const distributed::ProcessGroup& group) {
  const FitPlan kept = with_lr_of(run.plan, *run.resume);
  on_first_rank(group, [&] {
    if (run.callbacks.note)
      run.callbacks.note(concat("--lr ",
                                run.plan.options.lr.search,
                                ": a run that goes on keeps its rate, ",
                                shortest(kept.lr),
                                ", unless --lr gives it a number"));
  });
  return fit_found(with_plan(run, kept), group);
}

}  // namespace

FitResult fit(const FitRequest& run, const distributed::ProcessGroup& group) {
  const memory::OomWatch watch;
  const FitPlan& plan = run.plan;
  const tensor::MathModesGuard modes(math_modes_of(plan.options));
  tensor::zero_unseen_taps();
  const AnomalyMode anomalies(plan.options.detect_anomaly);
  const c10::Device device = device_of_rank(plan, group.rank());
  if (!plan.options.batch_size.search.empty()) {
    // A run goes on with the size that it has found.
    if (run.resume && run.resume->global_batch > 0)
      return fit(with_plan(run, with_batch_size(plan, run.resume->global_batch)), group);
    const std::string hint = memory_advice(plan, {.in = MemoryFailure::In::kSmallest});
    const std::optional<FitPlan> found = with_memory_words(
        device, "in the search for a batch size", hint, [&] { return find_batch(run, group); });
    if (!found) return {.interrupted = true};
    return fit(with_plan(run, *found), group);
  }
  if (plan.options.lr.search.empty()) return fit_found(run, group);
  if (run.resume) return fit_with_kept_rate(run, group);
  const std::optional<FittedLr> lr = find_lr(run, group);
  if (!lr) return {.interrupted = true};
  FitRequest found = with_plan(run, lr->plan);
  found.callbacks = also_writing(run.callbacks, *lr, run.output);
  return fit_found(found, group);
}

}  // namespace muster::train
