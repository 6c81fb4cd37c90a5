#include "muster/train/trainer.h"

#include <chrono>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/subset_dataset.h"
#include "muster/models/model.h"
#include "muster/parallel/ddp.h"
#include "muster/track/metrics_log.h"
#include "muster/train/evaluate.h"
#include "muster/train/meter.h"
#include "muster/train/model_state.h"
#include "muster/train/optimizer.h"
#include "muster/train/step_report.h"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using Model = std::shared_ptr<models::Classifier>;

constexpr double kProgressPeriod = 0.1;  // seconds between two progress events

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One run on one rank. Everything collective happens in the same order on all ranks.
class Trainer {
 public:
  Trainer(const TrainPlan& plan,
          const TrainData& data,
          const parallel::ProcessGroup& group,
          const std::filesystem::path& output,
          const std::optional<Checkpoint>& resume,
          const TrainCallbacks& callbacks);

  TrainResult run();

 private:
  enum class Step { kDone, kStopped };

  bool is_first() const { return group_.rank() == 0; }
  bool finished() const;
  void build_model();
  void restore(const Checkpoint& checkpoint);
  Step train_epoch();
  void train_step(const data::Batch& batch);
  void require_finite(const data::Batch& batch) const;
  void after_step(const data::Batch& batch);
  void validate();
  Meter evaluate_split(const std::shared_ptr<const data::Dataset>& split, const std::string& phase);
  void save();
  void log(const std::string& phase, const Meter& meter);
  void report(const std::string& phase, int64_t step, int64_t steps, const Meter& meter);

  const TrainPlan& plan_;
  parallel::ProcessGroup group_;
  std::filesystem::path output_;
  const TrainCallbacks& callbacks_;
  const Clock::time_point start_ = Clock::now();

  std::shared_ptr<const data::Dataset> train_set_, validation_set_, test_set_;
  std::unique_ptr<data::Loader> loader_;
  Model model_;
  std::optional<parallel::DistributedDataParallel<Model>> ddp_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<track::MetricsLog> metrics_;
  StepReport step_report_;

  TrainPosition position_;
  Meter epoch_meter_;       // since the start of the epoch: what the bar shows
  Meter window_meter_;      // since the last row of metrics
  int64_t steps_here_ = 0;  // by this process, for the time left
  int64_t samples_here_ = 0;
  double step_seconds_ = 0;
  Clock::time_point last_report_{};
  std::filesystem::path last_checkpoint_;
  int64_t last_saved_ = -1;
};

Trainer::Trainer(const TrainPlan& plan,
                 const TrainData& data,
                 const parallel::ProcessGroup& group,
                 const std::filesystem::path& output,
                 const std::optional<Checkpoint>& resume,
                 const TrainCallbacks& callbacks)
    : plan_(plan),
      group_(group),
      output_(output),
      callbacks_(callbacks),
      test_set_(data.test),
      step_report_(group) {
  train_set_ = std::make_shared<data::SubsetDataset>(data.train, 0, plan.train_samples);
  validation_set_ = std::make_shared<data::SubsetDataset>(
      data.train, plan.train_samples, plan.validation_samples);
  const auto seed = static_cast<uint64_t>(plan.options.seed);
  loader_ = std::make_unique<data::Loader>(
      train_set_,
      data::LoaderOptions{
          .batch_size = plan.batch_per_rank, .workers = plan.options.workers, .seed = seed},
      std::make_unique<data::DistributedSampler>(
          plan.train_samples,
          data::DistributedSamplerOptions{
              .world_size = group.world_size(), .rank = group.rank(), .seed = seed}));
  build_model();
  if (resume) restore(*resume);
  if (plan.options.strategy == "ddp") ddp_.emplace(model_, group);
  if (is_first()) metrics_.emplace(output, resume ? position_.step : -1);
}

void Trainer::build_model() {
  const auto seed = static_cast<uint64_t>(plan_.options.seed);
  const auto& shape = plan_.spec.sample_shape;
  // Torch's default generator is one per process: ranks that are threads seed it and draw one after
  // the other.
  static std::mutex generator_in_use;
  const std::lock_guard lock(generator_in_use);
  at::manual_seed(seed);
  model_ = models::make_model(
      plan_.model_name,
      {.channels = shape[0], .height = shape[1], .width = shape[2], .classes = plan_.spec.classes},
      plan_.model_params);
  // The same seed gave every rank the same weights. What is drawn from here on (dropout) differs
  // between ranks.
  if (!is_first()) at::manual_seed(seed + static_cast<uint64_t>(group_.rank()));
  NamedTensorList parameters;
  for (const auto& item : model_->named_parameters())
    parameters.emplace_back(item.key(), item.value());
  optimizer_ = optimizers()
                   .at(plan_.optimizer_name)
                   .make(std::move(parameters), plan_.lr, plan_.optimizer_params);
}

// See Note [Exact resume].
void Trainer::restore(const Checkpoint& checkpoint) {
  load_model_state(*model_, checkpoint.model);
  optimizer_->load_state({checkpoint.optimizer, {}});
  position_ = checkpoint.position;
  epoch_meter_ = Meter::from_json(checkpoint.meters.at("epoch"));
  window_meter_ = Meter::from_json(checkpoint.meters.at("window"));
  if (checkpoint.world_size == group_.world_size()) load_rng_state(checkpoint.rng, group_.rank());
}

bool Trainer::finished() const {
  const int64_t max_steps = plan_.options.max_steps;
  return position_.epoch >= plan_.options.epochs || (max_steps > 0 && position_.step >= max_steps);
}

TrainResult Trainer::run() {
  TrainResult result;
  while (!finished()) {
    if (train_epoch() == Step::kStopped) {
      result.interrupted = true;
      break;
    }
  }
  if (result.interrupted || last_saved_ != position_.step) save();
  if (!result.interrupted) {
    const Meter test = evaluate_split(test_set_, "test");
    log("test", test);
    result.test_loss = test.loss();
    result.test_accuracy = test.accuracy();
  }
  result.steps = position_.step;
  result.seconds = seconds_since(start_);
  result.checkpoint = last_checkpoint_;
  return result;
}

Trainer::Step Trainer::train_epoch() {
  model_->train();
  data::Epoch epoch = loader_->epoch(position_.epoch, position_.samples);
  while (const std::optional<data::Batch> batch = epoch.next()) {
    if (finished()) return Step::kDone;  // max_steps inside the epoch
    const auto started = Clock::now();
    train_step(*batch);
    step_seconds_ += seconds_since(started);
    after_step(*batch);
    if (step_report_.stop()) return Step::kStopped;
  }
  validate();
  ++position_.epoch;
  position_.samples = 0;
  epoch_meter_ = {};
  save();
  return Step::kDone;
}

void Trainer::train_step(const data::Batch& batch) {
  optimizer_->zero_grad();
  const at::Tensor scores = ddp_ ? (*ddp_)->forward(batch.data) : model_->forward(batch.data);
  const at::Tensor loss = at::cross_entropy_loss(scores, batch.target);
  const bool stop = callbacks_.stop_requested && callbacks_.stop_requested();
  step_report_.post(stop, loss.item<double>(), count_correct(scores, batch.target), batch.size());
  loss.backward();
  step_report_.wait();
  require_finite(batch);  // on all ranks, before any of them changes a weight
  // A wish to stop waits until the step is applied: forward has already moved BatchNorm's
  // statistics.
  optimizer_->step();
}

void Trainer::require_finite(const data::Batch& batch) const {
  if (step_report_.ranks_not_finite() == 0) return;
  throw environment_error(
      {.refused = concat("the loss is not finite in step ",
                         position_.step + 1,
                         " (epoch ",
                         position_.epoch + 1,
                         ")"),
       .rule = "training goes on only with finite numbers",
       .value = concat(step_report_.ranks_not_finite(),
                       " of ",
                       group_.world_size(),
                       " ranks; this rank's batch starts with sample ",
                       batch.indices.empty() ? -1 : batch.indices[0]),
       .hint =
           concat("try a smaller --lr (now ",
                  shortest(optimizer_->lr()),
                  "); ",
                  last_saved_ >= 0 ? concat("the checkpoint of step ", last_saved_, " is intact")
                                   : "no checkpoint was written yet")});
}

void Trainer::after_step(const data::Batch& batch) {
  ++position_.step;
  ++steps_here_;
  position_.samples += batch.size() * group_.world_size();
  samples_here_ += batch.size() * group_.world_size();
  step_report_.add_to(epoch_meter_);
  step_report_.add_to(window_meter_);
  if (position_.step % plan_.options.log_every == 0) {
    log("train", window_meter_);
    window_meter_ = {};
  }
  const int64_t batch_size = plan_.options.batch_size;
  const int64_t in_epoch =
      std::min((position_.samples + batch_size - 1) / batch_size, plan_.steps_per_epoch);
  report("train", in_epoch, plan_.steps_per_epoch, epoch_meter_);
  const int64_t every = plan_.options.checkpoint_every;
  if (every > 0 && position_.step % every == 0 && in_epoch < plan_.steps_per_epoch) save();
}

void Trainer::validate() {
  if (validation_set_->size() == 0) return;
  const Meter meter = evaluate_split(validation_set_, "validate");
  log("validate", meter);
  if (is_first() && callbacks_.note) {
    callbacks_.note(concat("epoch ",
                           position_.epoch + 1,
                           "/",
                           plan_.options.epochs,
                           ": loss ",
                           fixed(epoch_meter_.loss(), 4),
                           ", accuracy ",
                           fixed(epoch_meter_.accuracy(), 4),
                           "; validation loss ",
                           fixed(meter.loss(), 4),
                           ", accuracy ",
                           fixed(meter.accuracy(), 4)));
  }
}

Meter Trainer::evaluate_split(const std::shared_ptr<const data::Dataset>& split,
                              const std::string& phase) {
  return evaluate(*model_,
                  split,
                  group_,
                  {.workers = plan_.options.workers},
                  [&](int64_t done, int64_t batches, const Meter& meter) {
                    report(phase, done, batches, meter);
                  });
}

void Trainer::save() {
  Checkpoint checkpoint{
      .position = position_,
      .world_size = group_.world_size(),
      .global_batch = plan_.options.batch_size,
      .plan = to_json(plan_),
      .meters = {{"epoch", epoch_meter_.to_json()}, {"window", window_meter_.to_json()}},
      .model = model_state(*model_),
      .optimizer = optimizer_->state(),
      .rng = gather_rng_states(group_)};
  last_saved_ = position_.step;
  if (!is_first()) return;
  last_checkpoint_ = write_checkpoint(output_, checkpoint);
  remove_old_checkpoints(output_, plan_.options.keep_checkpoints);
}

void Trainer::log(const std::string& phase, const Meter& meter) {
  if (!metrics_) return;
  track::MetricsRow row{.step = position_.step,
                        .epoch = std::min(position_.epoch + 1, plan_.options.epochs),
                        .phase = phase};
  row.loss = meter.loss();
  row.accuracy = meter.accuracy();
  if (phase == "train") {
    row.lr = optimizer_->lr();
    if (step_seconds_ > 0) row.samples_per_s = static_cast<double>(samples_here_) / step_seconds_;
  }
  row.elapsed_s = seconds_since(start_);
  metrics_->write(row);
}

void Trainer::report(const std::string& phase, int64_t step, int64_t steps, const Meter& meter) {
  if (!is_first() || !callbacks_.progress) return;
  if (step < steps && seconds_since(last_report_) < kProgressPeriod) return;
  last_report_ = Clock::now();
  track::ProgressEvent event{.phase = phase,
                             .epoch = std::min(position_.epoch + 1, plan_.options.epochs),
                             .epochs = plan_.options.epochs,
                             .step = step,
                             .steps = steps};
  event.loss = meter.loss();
  event.accuracy = meter.accuracy();
  if (steps_here_ > 0 && phase == "train") {
    event.samples_per_s = static_cast<double>(samples_here_) / step_seconds_;
    event.eta_s = step_seconds_ / static_cast<double>(steps_here_) *
                  static_cast<double>(plan_.total_steps - position_.step);
  }
  callbacks_.progress(event);
}

}  // namespace

TrainData open_data(const std::string& spec, const std::filesystem::path& data_dir) {
  const auto [name, params] = split_spec(spec);
  const data::DatasetEntry& entry = data::datasets().at(name);
  data::DatasetRequest request{.data_dir = data_dir, .params = params};
  TrainData data;
  data.train = entry.open(request);
  request.split = data::Split::kTest;
  data.test = entry.open(request);
  return data;
}

TrainResult train(const TrainPlan& plan,
                  const TrainData& data,
                  const parallel::ProcessGroup& group,
                  const std::filesystem::path& output,
                  const std::optional<Checkpoint>& resume,
                  const TrainCallbacks& callbacks) {
  return Trainer(plan, data, group, output, resume, callbacks).run();
}

}  // namespace muster::train
