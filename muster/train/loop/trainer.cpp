#include "muster/train/loop/trainer.h"

#include <algorithm>
#include <cmath>

#include <ATen/CPUGeneratorImpl.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/first_rank.h"
#include "muster/train/loop/messages.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/training.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/plan/parts.h"

namespace muster::train {
namespace detail {

Trainer::Trainer(const TrainPlan& plan,
                 const TrainData& data,
                 const distributed::ProcessGroup& group,
                 const std::filesystem::path& output,
                 const std::optional<Checkpoint>& resume,
                 const TrainCallbacks& callbacks,
                 RunFolder* owned)
    : plan_(plan),
      group_(group),
      output_(output),
      callbacks_(callbacks),
      data_(split_data(plan, data)),
      generator_(at::detail::createCPUGenerator()),
      schedule_(optim::make_schedule(
          plan.options.lr_schedule,
          {.lr = plan.lr, .total_steps = plan.total_steps, .total_epochs = plan.options.epochs})),
      best_({.patience = plan.options.patience,
             .min_delta = plan.options.min_delta,
             .wants_less = plan.monitor_falls}),
      log_(plan, output, group.rank() == 0, callbacks),
      divergence_(plan, group, log_, callbacks),
      scaler_(plan.precision, group),
      step_report_(group),
      timeline_(callbacks.trace, group, [this](const std::string& line) { log_.note(line); }) {
  begin_on_rank(plan, group, resume);
  loader_ = make_loader(plan, data_.train, group);
  build_model(resume.has_value());
  divergence_.begin(*model_);
  strategy_ = strategies()
                  .at(plan.strategy_name)
                  .make({.plan = plan, .model = model_, .group = group}, plan.strategy_params);
  if (resume) {
    strategy_->rehearse(stand_in_batch(plan.model_shape));
    restore(*resume);
  }
  on_first_rank(group, [&] {
    mine_ = open_run_folder(plan, output, resume, owned, callbacks, log_);
    folder_ = owned != nullptr ? owned : mine_.get();
    writer_.emplace(output, plan.options.keep_checkpoints);
  });
}

void Trainer::build_model(bool is_resumed) {
  model_ = make_initial_model(plan_, is_resumed);
  // The same seed gave every rank the same weights; what a model draws later (dropout) differs.
  generator_.set_current_seed(static_cast<uint64_t>(plan_.options.seed) +
                              static_cast<uint64_t>(group_.rank()));
  model_->set_generator(generator_);
}

// See Note [Exact resume].
void Trainer::restore(const Checkpoint& checkpoint) {
  load_model_state(*model_, checkpoint.model);
  strategy_->load_optimizer_state(checkpoint.optimizer);
  position_ = checkpoint.position;
  epoch_meter_ = Meter::from_json(checkpoint.loop.at("epoch"));
  window_meter_ = Meter::from_json(checkpoint.loop.at("window"));
  schedule_->load_state(checkpoint.loop.at("schedule"));
  scaler_.load_state(checkpoint.loop.value("scaler", Json::object()));
  best_.load_state(checkpoint.loop.at("best"));
  best_step_ = checkpoint.best_step;
  restore_generator(generator_, checkpoint, group_, plan_.options.seed);
  last_saved_ = started_after_ = position_.step;
}

bool Trainer::finished() const {
  const int64_t max_steps = plan_.options.max_steps;
  return position_.epoch >= plan_.options.epochs || stops_early() ||
         (max_steps > 0 && position_.step >= max_steps);
}

TrainResult Trainer::run() {
  TrainResult result;
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
  if (scaler_.enabled()) result.skipped_steps = scaler_.skipped_steps();
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
  model_->train();
  data::Epoch epoch = loader_->epoch(position_.epoch, position_.samples);
  while (position_.samples < plan_.samples_per_epoch) {
    if (finished()) return Step::kDone;  // max_steps inside the epoch
    train_step(epoch);
    if (step_report_.stop()) return Step::kStopped;
  }
  return end_epoch();
}

// Note [Weighted batches]
// An optimizer step takes the next `samples_per_step` samples of the epoch's order, or what is left
// of it, in one or more batches shared by the ranks. Each rank and batch adds its mean loss times
// (its samples * world size / samples of the step), and DDP divides by the world size: the gradient
// is the mean over exactly the samples of the step, also where the last shares differ by one. With
// equal shares the weight is 1 and no multiplication is made. A rank that has no sample left in the
// last batch takes part with weight 0, so that the collectives match.
void Trainer::train_step(data::Epoch& epoch) {
  const auto started = Clock::now();
  timeline_.begin_step(position_.step);
  const int64_t samples =
      std::min(plan_.samples_per_step, plan_.samples_per_epoch - position_.samples);
  const int64_t batch_size = plan_.options.batch_size;
  const int64_t batches = (samples + batch_size - 1) / batch_size;
  optim::Optimizer& optimizer = strategy_->optimizer();
  apply(schedule_->at({.step = position_.step, .epoch = position_.epoch}), optimizer);
  optimizer.zero_grad();
  Meter local;
  for (int64_t i = 0; i < batches; ++i) {
    timeline_.begin(diagnose::Phase::kDataWait);
    std::optional<data::Batch> batch = epoch.next();
    const int64_t mine = batch ? batch->size() : 0;
    if (batch) log_.batch(batch->data, position_);
    if (!batch) batch = stand_in_batch(plan_.model_shape);
    const double weight =
        static_cast<double>(mine * group_.world_size()) / static_cast<double>(samples);
    backward(*batch, weight, i + 1 == batches, local);
  }
  timeline_.end();
  step_report_.wait();
  // A wish to stop waits until the step is applied: forward has already moved BatchNorm's
  // statistics.
  timeline_.begin(diagnose::Phase::kOptimizer);
  update();
  timeline_.end_step();
  log_.count_step(samples, std::chrono::duration<double>(Clock::now() - started).count());
  after_step(samples);
}

/// The optimizer's step, unless a loss or gradient is not finite: decided alike on all ranks,
/// before any of them changes a weight.
void Trainer::update() {
  const int64_t ranks = step_report_.ranks_not_finite();
  const std::string seen = concat(ranks, " of ", group_.world_size(), " ranks");
  if (ranks > 0 && !scaler_.enabled()) divergence_.end(here(), {.what = "the loss", .value = seen});
  const double scale = scaler_.scale();
  const bool made = scaler_.step(strategy_->optimizer(), ranks == 0, [this] {
    clip_gradients();
    strategy_->optimizer().step();
  });
  if (!made && scaler_.exhausted()) {
    divergence_.end(
        here(),
        {.what = ranks > 0 ? "the loss" : "a gradient",
         .value = concat("NaN or infinity at every loss scale down to ", shortest(scale))});
  }
}

/// Forward and backward of one batch, whose samples are added to `sum`. The last batch of a step
/// averages the gradients over the ranks, and posts what the ranks tell each other.
void Trainer::backward(const data::Batch& batch, double weight, bool last, Meter& sum) {
  const auto run = [&] {
    timeline_.begin(diagnose::Phase::kForward);
    at::Tensor scores, loss;
    {
      const PrecisionGuard guard(plan_.precision.kind, batch.data.device());
      scores = strategy_->forward(batch.data);
      loss = cross_entropy(scores, batch.target, plan_.options.label_smoothing);
    }
    if (weight > 0) sum.add(loss.item<double>(), count_correct(scores, batch.target), batch.size());
    if (last) step_report_.post(callbacks_.stop_requested && callbacks_.stop_requested(), sum);
    timeline_.begin(diagnose::Phase::kBackward);
    scaler_.scale(weight == 1 ? loss : loss * weight).backward();
  };
  if (last) {
    run();
  } else {
    strategy_->accumulate(run);
  }
}

void Trainer::clip_gradients() {
  const double limit = plan_.options.gradient_clip_val;
  if (limit <= 0) return;
  gradient_norm_ = strategy_->clip_gradients(limit);
  if (!std::isfinite(*gradient_norm_))
    divergence_.end(here(), {.what = "the gradients' norm", .value = shortest(*gradient_norm_)});
}

void Trainer::after_step(int64_t samples) {
  ++position_.step;
  position_.samples += samples;
  step_report_.add_to(epoch_meter_);
  step_report_.add_to(window_meter_);
  if (position_.step % plan_.options.log_every == 0) {
    write_train_row();
    window_meter_ = {};
  }
  const int64_t in_epoch =
      (position_.samples + plan_.samples_per_step - 1) / plan_.samples_per_step;
  log_.progress("train", position_, in_epoch, plan_.steps_per_epoch, epoch_meter_);
  const int64_t every = plan_.options.checkpoint_every;
  if (every > 0 && position_.step % every == 0 && in_epoch < plan_.steps_per_epoch) save();
}

/// What no row and no line has said yet of a run that --max-steps ends, or that is short.
void Trainer::end_inside_epoch() {
  if (position_.step == started_after_) return;  // an earlier process has said it
  if (position_.samples > 0)
    log_.note(epoch_line(plan_, position_, epoch_meter_, std::nullopt, scaler_));
  if (position_.step < plan_.options.log_every && window_meter_.count > 0) write_train_row();
}

void Trainer::write_train_row() {
  log_.train(position_,
             window_meter_,
             {.lr = strategy_->optimizer().lr(), .gradient_norm = gradient_norm_});
}

/// Before weights are scored or saved.
void Trainer::check_weights() {
  if (checked_ != position_.step) divergence_.check_weights(*model_, here());
  checked_ = position_.step;
}

Trainer::Step Trainer::end_epoch() {
  check_weights();
  log_.weights(*model_, position_);
  EpochEnd end{.train_loss = epoch_meter_.loss(), .train_accuracy = epoch_meter_.accuracy()};
  if (data_.validation->size() > 0) {
    const Evaluation seen = evaluate_split(data_.validation, "validate");
    end.loss = seen.meter.loss();
    end.accuracy = seen.meter.accuracy();
    log_.evaluated("validate", position_, seen);
    divergence_.check_loss(seen, "the validation loss", here());
    log_.note(epoch_line(plan_, position_, epoch_meter_, seen.meter, scaler_));
    const std::string_view metric = schedule_->metric();
    if (!metric.empty())
      schedule_->after_epoch(metric == "loss" ? seen.meter.loss() : seen.meter.accuracy());
    if (best_.after_epoch(plan_.monitor_falls ? seen.meter.loss() : seen.meter.accuracy()))
      best_step_ = position_.step;
  } else {
    log_.note(epoch_line(plan_, position_, epoch_meter_, std::nullopt, scaler_));
  }
  ++position_.epoch;
  position_.samples = 0;
  epoch_meter_ = {};
  save();
  bool stops = false;
  if (writer_ && callbacks_.epoch_ended) {
    end.epoch = position_.epoch;
    end.checkpoint = writer_->wait();
    stops = callbacks_.epoch_ended(end);
  }
  return from_first_rank(group_, stops) && !finished() ? Step::kStopped : Step::kDone;
}

Evaluation Trainer::evaluate_split(const DatasetPtr& split, const std::string& phase) {
  return evaluate_shown(
      *model_, split, group_, plan_, phase, [&](int64_t done, int64_t batches, const Meter& meter) {
        log_.progress(phase, position_, done, batches, meter);
      });
}

void Trainer::load_best() {
  if (best_step_ < 0) return log_.note("no epoch was the best: the last weights are tested");
  load_on_all_ranks(*model_, group_, [&] {
    writer_->wait();
    return read_best(output_, best_step_);
  });
}

void Trainer::test(TrainResult& result) {
  if (plan_.options.test_weights == "best") load_best();
  result.test = evaluate_split(data_.test, "test");
  log_.evaluated("test", position_, result.test);
  divergence_.check_loss(result.test, "the test loss", here());
}

void Trainer::save() {
  check_weights();
  const tensor::NamedTensorList rng = gather_rng_states(group_, generator_);
  if (writer_) is_written();  // so that two states are not in memory at once
  tensor::NamedTensorList optimizer = strategy_->optimizer_state();
  last_saved_ = position_.step;
  const auto place = folder_ != nullptr ? folder_->place() : std::nullopt;
  if (place && *place != folder_->path()) writer_.emplace(*place, plan_.options.keep_checkpoints);
  if (place) {
    writer_->start({.position = position_,
                    .world_size = group_.world_size(),
                    .global_batch = plan_.options.batch_size,
                    .plan = to_json(plan_),
                    .loop = {{"epoch", epoch_meter_.to_json()},
                             {"window", window_meter_.to_json()},
                             {"schedule", schedule_->state()},
                             {"scaler", scaler_.state()},
                             {"best", best_.state()}},
                    .best_step = best_step_,
                    .model = model_state(*model_),
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

TrainResult train(const TrainPlan& plan,
                  const TrainData& data,
                  const distributed::ProcessGroup& group,
                  const std::filesystem::path& output,
                  const std::optional<Checkpoint>& resume,
                  const TrainCallbacks& callbacks,
                  RunFolder* owned) {
  return detail::Trainer(plan, data, group, output, resume, callbacks, owned).run();
}

}  // namespace muster::train
