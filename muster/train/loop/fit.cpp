#include "muster/train/loop/fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <ATen/CPUGeneratorImpl.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/first_rank.h"
#include "muster/train/loop/messages.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/training.h"
#include "muster/train/task/step.h"

namespace muster::train {
namespace {

void remark_shared_generator(const FitPlan& plan, RunLog& log) {
  if (plan.options.devices > 1)
    log.note(
        "the task's module draws from torch's default generator, which ranks that are threads "
        "share: what it draws differs from run to run (see Task::set_generator)");
}

}  // namespace

namespace detail {

Trainer::Trainer(const TaskMaker& make_task,
                 const FitData& data,
                 const FitPlan& plan,
                 const distributed::ProcessGroup& group,
                 const std::filesystem::path& output,
                 const std::optional<Checkpoint>& resume,
                 const FitCallbacks& callbacks,
                 RunFolder* owned)
    : plan_(plan),
      group_(group),
      output_(output),
      callbacks_(callbacks),
      data_(data),
      schedule_(optim::make_schedule(
          plan.options.lr_schedule,
          {.lr = plan.lr, .total_steps = plan.total_steps, .total_epochs = plan.options.epochs})),
      best_({.patience = plan.options.patience,
             .min_delta = plan.options.min_delta,
             .wants_less = plan.monitor_falls}),
      log_(plan, output, group.rank() == 0, callbacks),
      divergence_(plan, group, log_, callbacks),
      timeline_(callbacks.trace, group, [this](const std::string& line) { log_.note(line); }) {
  begin_on_rank(plan, group, resume);
  loader_ = make_loader(plan, data_.train, group);
  check_batches_on_ranks(*data_.train, group);
  this->make_task(make_task);
  if (resume) check_task(*task_, *resume);
  divergence_.begin(module());
  make_parts();
  if (resume) {
    rehearse();
    restore(*resume);
  }
  on_first_rank(group, [&] {
    mine_ = open_run_folder(plan, output, resume, owned, log_);
    folder_ = owned != nullptr ? owned : mine_.get();
    log_.open(resume ? resume->position.step : -1, *metrics_);
    if (callbacks.folder_ready) callbacks.folder_ready();
    writer_.emplace(output, plan.options.keep_checkpoints);
  });
}

StepContext Trainer::context(Phase phase, size_t part) const {
  return {.phase = phase, .part = part, .step = position_.step, .epoch = position_.epoch};
}

void Trainer::make_task(const TaskMaker& make) {
  task_ = make_seeded(make, plan_.options.seed);
  module_ = task_->module();
  metrics_ = std::make_shared<const std::vector<Metric>>(task_->metrics());
  check_task_on_ranks(*task_, group_);
  for (Meter* meter : {&step_meter_, &epoch_meter_, &window_meter_}) *meter = Meter(metrics_);
  step_report_.emplace(group_, metrics_);
  // The same seed gave every rank the same weights; what a module draws later (dropout) differs.
  generator_ = at::detail::createCPUGenerator();
  if (!task_->set_generator(generator_)) {
    generator_ = at::detail::getDefaultCPUGenerator();
    remark_shared_generator(plan_, log_);
  }
  generator_.set_current_seed(static_cast<uint64_t>(plan_.options.seed) +
                              static_cast<uint64_t>(group_.rank()));
}

void Trainer::make_parts() {
  std::vector<TaskPart> parts = task_->parts();
  if (parts.empty()) parts.push_back({"", module_});
  for (TaskPart& part : parts)
    parts_.push_back(
        std::make_unique<TrainedPart>(std::move(part.name), plan_, std::move(part.module), group_));
}

/// A backward whose gradients are dropped, where the strategy wants one; see
/// Strategy::wants_rehearsal.
void Trainer::rehearse() {
  module().train();
  for (size_t part = 0; part < parts_.size(); ++part) {
    Strategy& strategy = parts_[part]->strategy();
    if (!strategy.wants_rehearsal()) continue;
    const data::Batch batch = stand_in_batch(*data_.train);
    const auto turn = turn_of(part);
    StepResult result;
    {
      const PrecisionGuard guard(plan_.precision.kind, device_of(batch));
      result =
          strategy.forward([&] { return task_->train_step(batch, context(Phase::kTrain, part)); });
    }
    check_result(*task_, result, /*trains=*/true);
    result.loss.backward();
    strategy.optimizer().zero_grad();
  }
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

// See Note [Exact resume].
void Trainer::restore(const Checkpoint& checkpoint) {
  load_model_state(module(), checkpoint.model);
  for (const auto& part : parts_) part->load_state(checkpoint.optimizer);
  position_ = checkpoint.position;
  epoch_meter_.load(checkpoint.loop.at("epoch"));
  window_meter_.load(checkpoint.loop.at("window"));
  schedule_->load_state(checkpoint.loop.at("schedule"));
  load_scalers(checkpoint.loop.value("scaler", Json::object()));
  best_.load_state(checkpoint.loop.at("best"));
  if (checkpoint.loop.contains("task")) task_->load_state(checkpoint.loop.at("task"));
  best_step_ = checkpoint.best_step;
  restore_generator(generator_, checkpoint, group_, plan_.options.seed);
  last_saved_ = started_after_ = position_.step;
}

/// One part's scale as it is, those of several by their names.
Json Trainer::scaler_state() const {
  if (parts_.size() == 1) return parts_[0]->scaler().state();
  Json all = Json::object();
  for (const auto& part : parts_) all[part->name()] = part->scaler().state();
  return all;
}

int64_t Trainer::skipped_steps() const {
  int64_t all = 0;
  for (const auto& part : parts_) all += part->scaler().skipped_steps();
  return all;
}

void Trainer::load_scalers(const Json& state) {
  if (parts_.size() == 1) return parts_[0]->scaler().load_state(state);
  for (const auto& part : parts_)
    part->scaler().load_state(state.value(part->name(), Json::object()));
}

bool Trainer::finished() const {
  const int64_t max_steps = plan_.options.max_steps;
  return position_.epoch >= plan_.options.epochs || stops_early() ||
         (max_steps > 0 && position_.step >= max_steps);
}

FitResult Trainer::run() {
  FitResult result;
  while (!finished()) {
    if (train_epoch() == Step::kStopped) {
      result.interrupted = true;
      break;
    }
  }
  if (stops_early()) log_.note(early_stop_line(plan_, best_));
  if (!result.interrupted) end_inside_epoch();
  if (last_saved_ != position_.step) save();
  if (!result.interrupted) test(result);
  result.steps = position_.step;
  if (scaler().enabled()) result.skipped_steps = skipped_steps();
  bool kept = true;
  on_first_rank(group_, [&] { kept = is_written(); });
  if (!from_first_rank(group_, kept)) save();  // where the folder is now; that ends the run
  on_first_rank(group_, [&] {
    check_folder();
    result.checkpoint = writer_->wait();
    if (result.checkpoint.empty()) result.checkpoint = find_checkpoint(output_);
  });
  result.seconds = log_.seconds();
  timeline_.finish();  // once the state is on the disk
  log_.finish(result);
  return result;
}

Trainer::Step Trainer::train_epoch() {
  log_.begin_epoch();
  module().train();
  data::Epoch epoch = loader_->epoch(position_.epoch, position_.samples);
  while (position_.samples < plan_.samples_per_epoch) {
    if (finished()) return Step::kDone;  // max_steps inside the epoch
    train_step(epoch);
    if (stop_wished_) return Step::kStopped;
  }
  return end_epoch();
}

void Trainer::after_step(int64_t samples) {
  ++position_.step;
  position_.samples += samples;
  epoch_meter_.add(step_meter_);
  window_meter_.add(step_meter_);
  if (position_.step % plan_.options.log_every == 0) {
    write_train_row();
    window_meter_ = Meter(metrics_);
  }
  const int64_t in_epoch =
      (position_.samples + plan_.samples_per_step - 1) / plan_.samples_per_step;
  log_.progress("train", position_, in_epoch, plan_.steps_per_epoch, epoch_meter_.metrics());
  const int64_t every = plan_.options.checkpoint_every;
  if (every > 0 && position_.step % every == 0 && in_epoch < plan_.steps_per_epoch) save();
}

/// What no row and no line has said yet of a run that --max-steps ends, or that is short.
void Trainer::end_inside_epoch() {
  if (position_.step == started_after_) return;  // an earlier process has said it
  if (position_.samples > 0)
    log_.note(epoch_line(plan_, position_, epoch_meter_.metrics(), {}, scaler()));
  if (position_.step < plan_.options.log_every && !window_meter_.empty()) write_train_row();
}

void Trainer::write_train_row() {
  log_.train(position_,
             window_meter_.metrics(),
             {.lr = optimizer().lr(), .gradient_norm = gradient_norm_});
}

/// Before weights are scored or saved.
void Trainer::check_weights() {
  if (checked_ != position_.step) divergence_.check_weights(module(), here());
  checked_ = position_.step;
}

Trainer::Step Trainer::end_epoch() {
  check_weights();
  log_.weights(module(), position_);
  EpochEnd end{.train = epoch_meter_.metrics()};
  if (data_.validation && data_.validation->size() > 0) {
    const Evaluation seen = evaluate_split(data_.validation, Phase::kValidate);
    end.validation = seen.metrics;
    log_.evaluated("validate", position_, seen.metrics);
    divergence_.check_loss(seen, "the validation loss", here());
    log_.note(epoch_line(plan_, position_, end.train, seen.metrics, scaler()));
    const std::string_view metric = schedule_->metric();
    if (!metric.empty()) schedule_->after_epoch(seen.metrics[metric]);
    if (best_.after_epoch(seen.metrics[plan_.monitored])) best_step_ = position_.step;
  } else {
    log_.note(epoch_line(plan_, position_, end.train, {}, scaler()));
  }
  ++position_.epoch;
  position_.samples = 0;
  epoch_meter_ = Meter(metrics_);
  save();
  bool stops = false;
  if (writer_ && callbacks_.epoch_ended) {
    end.epoch = position_.epoch;
    end.checkpoint = writer_->wait();
    stops = callbacks_.epoch_ended(end);
  }
  return from_first_rank(group_, stops) && !finished() ? Step::kStopped : Step::kDone;
}

Evaluation Trainer::evaluate_split(const std::shared_ptr<const data::Dataset>& split, Phase phase) {
  return evaluate_shown(*task_,
                        split,
                        group_,
                        {.workers = plan_.options.workers,
                         .precision = plan_.precision.kind,
                         .phase = phase,
                         .step = position_.step,
                         .epoch = position_.epoch},
                        [&](int64_t done, int64_t batches, const Metrics& metrics) {
                          log_.progress(
                              std::string(name_of(phase)), position_, done, batches, metrics);
                        });
}

void Trainer::load_best() {
  if (best_step_ < 0) return log_.note("no epoch was the best: the last weights are tested");
  load_on_all_ranks(module(), group_, [&] {
    writer_->wait();
    return read_best(output_, best_step_);
  });
}

void Trainer::test(FitResult& result) {
  if (!data_.test || data_.test->size() == 0) return;
  if (plan_.options.test_weights == "best") load_best();
  result.test = evaluate_split(data_.test, Phase::kTest);
  log_.evaluated("test", position_, result.test.metrics);
  divergence_.check_loss(result.test, "the test loss", here());
}

void Trainer::save() {
  check_weights();
  const tensor::NamedTensorList rng = gather_rng_states(group_, generator_);
  if (writer_) is_written();  // so that two states are not in memory at once
  tensor::NamedTensorList optimizer;
  for (const auto& part : parts_) {
    tensor::NamedTensorList own = part->state();
    optimizer.insert(
        optimizer.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }
  last_saved_ = position_.step;
  const auto place = folder_ != nullptr ? folder_->place() : std::nullopt;
  if (place && *place != folder_->path()) writer_.emplace(*place, plan_.options.keep_checkpoints);
  if (place) {
    writer_->start({.position = position_,
                    .world_size = group_.world_size(),
                    .global_batch = plan_.options.batch_size,
                    .plan = plan_.record,
                    .loop = {{"epoch", epoch_meter_.to_json()},
                             {"window", window_meter_.to_json()},
                             {"schedule", schedule_->state()},
                             {"scaler", scaler_state()},
                             {"best", best_.state()},
                             {"task_name", task_->name()},
                             {"task", task_->state()}},
                    .best_step = best_step_,
                    .model = model_state(module()),
                    .optimizer = std::move(optimizer),
                    .rng = rng});
  }
  on_first_rank(group_, [this] { check_folder(); });
}

/// Rank 0: waits for the checkpoint in hand. False if the folder was moved under the writer's hands.
bool Trainer::is_written() {
  try {
    writer_->wait();
    return true;
  } catch (const std::exception&) {
    if (folder_->place() == folder_->path()) throw;
    return false;
  }
}

/// Rank 0: ends the run if its folder is not where it was. A new one there would be half a run, and
/// whoever moved it looks for the whole in the other place.
void Trainer::check_folder() {
  const auto place = folder_->place();
  if (place == folder_->path()) return;
  if (place) writer_->wait();
  throw folder_->gone(place);
}

}  // namespace detail

FitResult fit(const TaskMaker& make_task,
              const FitData& data,
              const FitPlan& plan,
              const distributed::ProcessGroup& group,
              const std::filesystem::path& output,
              const std::optional<Checkpoint>& resume,
              const FitCallbacks& callbacks,
              RunFolder* owned) {
  return detail::Trainer(make_task, data, plan, group, output, resume, callbacks, owned).run();
}

}  // namespace muster::train
