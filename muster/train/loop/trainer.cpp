#include "muster/train/loop/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/CPUGeneratorImpl.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader.h"
#include "muster/models/model.h"
#include "muster/optim/schedule.h"
#include "muster/train/checkpoints/checkpoint_writer.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/early_stopping.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/messages.h"
#include "muster/train/loop/precision.h"
#include "muster/train/loop/step_report.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/plan/parts.h"
#include "muster/train/record/run_log.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using Model = std::shared_ptr<models::Classifier>;

/// One run on one rank. Everything collective happens in the same order on all ranks.
class Trainer {
 public:
  Trainer(const TrainPlan& plan,
          const TrainData& data,
          const distributed::ProcessGroup& group,
          const std::filesystem::path& output,
          const std::optional<Checkpoint>& resume,
          const TrainCallbacks& callbacks);

  TrainResult run();

 private:
  enum class Step { kDone, kStopped };

  bool is_first() const { return group_.rank() == 0; }
  bool stops_early() const { return plan_.options.patience > 0 && best_.should_stop(); }
  bool finished() const;
  void build_model();
  void restore(const Checkpoint& checkpoint);
  Step train_epoch();
  void train_step(data::Epoch& epoch);
  void backward(const data::Batch& batch, double weight, bool last, Meter& sum);
  void update();
  [[noreturn]] void not_finite(NotFinite found);
  void check_weights();
  void check_loss(const Evaluation& seen, const std::string& what);
  void clip_gradients();
  void after_step(int64_t samples);
  void end_inside_epoch();
  void end_epoch();
  Evaluation evaluate_split(const DatasetPtr& split, const std::string& phase);
  void load_best();
  void test(TrainResult& result);
  void save();

  const TrainPlan& plan_;
  distributed::ProcessGroup group_;
  std::filesystem::path output_;
  const TrainCallbacks& callbacks_;

  SplitData data_;
  std::unique_ptr<data::Loader> loader_;
  at::Generator generator_;  // of what the model draws while it trains: this rank's own
  Model model_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<optim::Schedule> schedule_;
  EarlyStopping best_;
  RunLog log_;
  std::optional<CheckpointWriter> writer_;  // rank 0
  LossScaler scaler_;
  StepReport step_report_;
  StepTimeline timeline_;

  formats::TrainPosition position_;
  Meter epoch_meter_;   // since the start of the epoch: what the bar shows
  Meter window_meter_;  // since the last row of metrics
  std::optional<double> gradient_norm_;
  bool is_best_ = false;  // the epoch that just ended
  int64_t last_saved_ = -1;
  int64_t started_after_ = 0;  // the step that this process goes on from
  int64_t checked_ = -1;       // the step whose weights are known to be finite
};

Trainer::Trainer(const TrainPlan& plan,
                 const TrainData& data,
                 const distributed::ProcessGroup& group,
                 const std::filesystem::path& output,
                 const std::optional<Checkpoint>& resume,
                 const TrainCallbacks& callbacks)
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
      log_(plan, output, resume ? resume->position.step : -1, group.rank() == 0, callbacks),
      scaler_(plan.precision, group),
      step_report_(group),
      timeline_(callbacks.trace, group, [this](const std::string& line) { log_.note(line); }) {
  loader_ = make_loader(plan, data_.train, group);
  build_model();
  strategy_ = strategies()
                  .at(plan.strategy_name)
                  .make({.plan = plan, .model = model_, .group = group}, plan.strategy_params);
  if (resume) {
    strategy_->rehearse(stand_in_batch(plan.model_shape));
    restore(*resume);
  }
  if (is_first()) writer_.emplace(output, plan.options.keep_checkpoints);
}

void Trainer::build_model() {
  model_ = make_initial_model(plan_);
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
  // Another world size: the ranks' streams are new ones, and differ from those already used.
  if (checkpoint.world_size != group_.world_size() ||
      !load_rng_state(checkpoint.rng, group_.rank(), generator_)) {
    generator_.set_current_seed(static_cast<uint64_t>(plan_.options.seed) +
                                (static_cast<uint64_t>(position_.step) << 20) +
                                static_cast<uint64_t>(group_.rank()));
  }
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
  if (writer_) result.checkpoint = writer_->wait();
  if (writer_ && result.checkpoint.empty()) result.checkpoint = find_checkpoint(output_);
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
  end_epoch();
  return Step::kDone;
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
  if (ranks > 0 && !scaler_.enabled()) not_finite({.what = "the loss", .value = seen});
  const double scale = scaler_.scale();
  const bool made = scaler_.step(strategy_->optimizer(), ranks == 0, [this] {
    clip_gradients();
    strategy_->optimizer().step();
  });
  if (!made && scaler_.exhausted()) {
    not_finite({.what = ranks > 0 ? "the loss" : "a gradient",
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

/// The end of a run that diverged, on all ranks alike. What was saved before stays.
void Trainer::not_finite(NotFinite found) {
  found.lr = strategy_->optimizer().lr();
  found.last_saved = last_saved_;
  const Error error = not_finite_error(plan_, position_, found);
  if (writer_) writer_->wait();
  log_.diverged(position_.step, error.text().refused);
  if (is_first() && callbacks_.not_finite) callbacks_.not_finite(error);
  throw error;
}

/// Before weights are scored or saved. A loss says nothing of the step that it led to: a gradient
/// may be NaN where the loss is not, and behind the last step no loss comes. Collective.
void Trainer::check_weights() {
  if (checked_ == position_.step) return;
  const std::string mine = first_not_finite(model_state(*model_)).value_or("");
  for (const std::string& name : group_.all_gather_text(mine)) {
    if (!name.empty())
      not_finite({.what = "the tensor " + name, .value = "NaN or infinity", .after = true});
  }
  checked_ = position_.step;
}

void Trainer::check_loss(const Evaluation& seen, const std::string& what) {
  const double loss = seen.meter.loss();
  if (!std::isfinite(loss)) not_finite({.what = what, .value = shortest(loss), .after = true});
}

void Trainer::clip_gradients() {
  const double limit = plan_.options.gradient_clip_val;
  if (limit <= 0) return;
  gradient_norm_ = strategy_->clip_gradients(limit);
  if (!std::isfinite(*gradient_norm_))
    not_finite({.what = "the gradients' norm", .value = shortest(*gradient_norm_)});
}

void Trainer::after_step(int64_t samples) {
  ++position_.step;
  position_.samples += samples;
  step_report_.add_to(epoch_meter_);
  step_report_.add_to(window_meter_);
  if (position_.step % plan_.options.log_every == 0) {
    log_.train(position_,
               window_meter_,
               {.lr = strategy_->optimizer().lr(), .gradient_norm = gradient_norm_});
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
  if (position_.samples > 0)
    log_.note(epoch_line(plan_, position_, epoch_meter_, std::nullopt, scaler_));
  const bool is_new = position_.step > started_after_;  // else an earlier process wrote it
  if (is_new && position_.step < plan_.options.log_every && window_meter_.count > 0) {
    log_.train(position_,
               window_meter_,
               {.lr = strategy_->optimizer().lr(), .gradient_norm = gradient_norm_});
  }
}

void Trainer::end_epoch() {
  check_weights();
  log_.weights(*model_, position_);
  EpochEnd end{.train_loss = epoch_meter_.loss(), .train_accuracy = epoch_meter_.accuracy()};
  if (data_.validation->size() > 0) {
    const Evaluation seen = evaluate_split(data_.validation, "validate");
    end.loss = seen.meter.loss();
    end.accuracy = seen.meter.accuracy();
    log_.evaluated("validate", position_, seen);
    check_loss(seen, "the validation loss");
    log_.note(epoch_line(plan_, position_, epoch_meter_, seen.meter, scaler_));
    const std::string_view metric = schedule_->metric();
    if (!metric.empty())
      schedule_->after_epoch(metric == "loss" ? seen.meter.loss() : seen.meter.accuracy());
    is_best_ = best_.after_epoch(plan_.monitor_falls ? seen.meter.loss() : seen.meter.accuracy());
  } else {
    log_.note(epoch_line(plan_, position_, epoch_meter_, std::nullopt, scaler_));
  }
  ++position_.epoch;
  position_.samples = 0;
  epoch_meter_ = {};
  save();
  is_best_ = false;
  if (!writer_ || !callbacks_.epoch_ended) return;
  end.epoch = position_.epoch;
  end.checkpoint = writer_->wait();
  callbacks_.epoch_ended(end);
}

Evaluation Trainer::evaluate_split(const DatasetPtr& split, const std::string& phase) {
  // A rank knows its own share of the samples only: no numbers until all shares are added up.
  const bool alone = group_.world_size() == 1;
  int64_t all = 0;
  const auto show = [&](int64_t done, int64_t batches, const Meter& meter) {
    all = batches;
    if (done < batches) log_.progress(phase, position_, done, batches, alone ? meter : Meter{});
  };
  Evaluation seen = evaluate(*model_,
                             split,
                             group_,
                             {.workers = plan_.options.workers,
                              .top_k = plan_.options.top_k,
                              .precision = plan_.precision.kind,
                              .confusion = phase == "test"},
                             show);
  if (all > 0) log_.progress(phase, position_, all, all, seen.meter);
  return seen;
}

/// The best epoch's weights on every rank: read by the first, whose disk has them.
void Trainer::load_best() {
  if (writer_) {
    writer_->wait();
    if (const auto best = best_checkpoint(output_))
      load_model_state(*model_, read_checkpoint(*best).model);
  }
  for (const auto& [name, tensor] : model_state(*model_)) group_.broadcast(tensor.detach());
}

void Trainer::test(TrainResult& result) {
  if (plan_.options.test_weights == "best") load_best();
  result.test = evaluate_split(data_.test, "test");
  log_.evaluated("test", position_, result.test);
  check_loss(result.test, "the test loss");
}

void Trainer::save() {
  check_weights();
  const tensor::NamedTensorList rng = gather_rng_states(group_, generator_);
  if (writer_) writer_->wait();  // so that two states are not in memory at once
  tensor::NamedTensorList optimizer = strategy_->optimizer_state();
  last_saved_ = position_.step;
  if (!writer_) return;
  writer_->start({.position = position_,
                  .world_size = group_.world_size(),
                  .global_batch = plan_.options.batch_size,
                  .plan = to_json(plan_),
                  .loop = {{"epoch", epoch_meter_.to_json()},
                           {"window", window_meter_.to_json()},
                           {"schedule", schedule_->state()},
                           {"scaler", scaler_.state()},
                           {"best", best_.state()}},
                  .is_best = is_best_,
                  .model = model_state(*model_),
                  .optimizer = std::move(optimizer),
                  .rng = rng});
}

}  // namespace

TrainResult train(const TrainPlan& plan,
                  const TrainData& data,
                  const distributed::ProcessGroup& group,
                  const std::filesystem::path& output,
                  const std::optional<Checkpoint>& resume,
                  const TrainCallbacks& callbacks) {
  return Trainer(plan, data, group, output, resume, callbacks).run();
}

}  // namespace muster::train
