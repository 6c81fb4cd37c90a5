// One run on one rank: the class behind fit().
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/DeviceGuard.h>

#include "muster/data/loader/device_batches.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/report/explain.h"
#include "muster/optim/schedule.h"
#include "muster/parallel/activations/unit_checkpoints.h"
#include "muster/tensor/device/host_copy.h"
#include "muster/train/checkpoints/checkpoint_writer.h"
#include "muster/train/device/memory_report.h"
#include "muster/train/device/rank_device.h"
#include "muster/train/loop/device_replay.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/hooks.h"
#include "muster/train/loop/memory_advice.h"
#include "muster/train/loop/parameter_groups.h"
#include "muster/train/loop/task_words.h"
#include "muster/train/loop/trained_part.h"
#include "muster/train/loop/weight_average.h"
#include "muster/train/metrics/meter.h"
#include "muster/train/metrics/step_sums.h"
#include "muster/train/plan/lr_search.h"
#include "muster/train/plan/precision.h"
#include "muster/train/progress/divergence.h"
#include "muster/train/progress/early_stopping.h"
#include "muster/train/progress/loader_verdict.h"
#include "muster/train/progress/step_report.h"
#include "muster/train/progress/step_timeline.h"
#include "muster/train/record/run_log.h"

namespace muster::train::detail {

using Clock = std::chrono::steady_clock;

/// What a probe of --batch-size auto has measured on one rank.
struct ProbeSeen {
  double peak = 0;     ///< bytes of the device in all its steps
  double forward = 0;  ///< held when a forward was over, at most
  double seconds = 0;  ///< of the last step
  bool stopped = false;
  Json strategy;  ///< Strategy::record()
};

/// One run on one rank. Everything collective happens in the same order on all ranks.
class Trainer {
 public:
  /// `run` outlives this. Nothing of it is made before begin().
  Trainer(const FitRequest& run, const distributed::ProcessGroup& group);

  /// Task, model, strategy and all else that a step needs, or what a run goes on from; before any of the
  /// following. A trainer whose begin() has thrown can say what it held. Collective.
  void begin();
  bool has_begun() const { return has_begun_; }

  FitResult run();
  /// Instead of run(): how the loss answers to rising rates. See Note [Learning-rate search].
  /// Nothing if it was stopped.
  std::optional<LrFound> search_lr(const LrSearchOptions& options);

  /// Instead of run(): so many steps, whose memory and time are measured. Throws where a step does not
  /// fit, on all ranks, and memory_ran_out() tells so. `keeps_batches`: as the steps of a run that may
  /// make them again do. See Note [Batch search].
  ProbeSeen probe(int64_t steps, bool keeps_batches);
  bool memory_ran_out() const;
  /// Strategy::least_memory() of the run's.
  std::optional<LeastMemory> least_memory() const;

  /// Steps finished, of the whole run.
  int64_t steps() const { return position_.step; }
  /// Of a report in the run's folder, once that is there or if it is free for this run.
  MemoryReportRequest memory_request();
  /// memory_lines() of an evaluation's failure, in the error's handler.
  std::string report_of_evaluation(const std::string& smaller_batch) noexcept;
  /// Where and with what memory ran out. In the error's handler; `report`: explain() of it, if any.
  MemoryFailure memory_failure(const memory::OomReport* report) const;
  /// Made or in hand, and not heard of.
  StepsUnderWay steps_under_way() const {
    return made_.empty() ? StepsUnderWay{} : StepsUnderWay{made_.front().before, std::ssize(made_)};
  }

  /// Parameters, gradients, buffers and this rank's optimizer state, for a report of its memory. Not
  /// collective; never throws.
  std::vector<memory::OwnedTensor> owned_memory() noexcept;
  /// What lived at the failure and is freed since: Strategy::dropped_memory(). Likewise.
  std::vector<memory::OwnedMemory> dropped_memory() noexcept;

 private:
  enum class Step { kDone, kStopped };

  /// This rank's share of one of a step's batches.
  struct Share {
    data::Batch batch;         // some other one where `weight` is 0
    double weight = 0;         // of its mean loss
    double factor = 0;         // that the loss is multiplied with; see Note [Weighted batches]
    bool is_stand_in = false;  // this rank has no sample left: it only takes part

    ~Share() {
      if (!batch.tensors.empty()) data::let_go(batch, batch.tensors[0].second.device());
    }
  };

  /// A step that is made or in hand, until the host knows what came of it: on the CPU at once, on a
  /// device while it makes the next one. See Note [Sums on the device].
  struct MadeStep {
    formats::TrainPosition before;
    double lr = 0;
    std::optional<tensor::HostCopy> gradient_norm;
    size_t answers_due = 0;  // one per part
    Meter sum;               // of all ranks
  };

  bool is_past_minimum() const {
    return position_.epoch >= plan_.options.min_epochs && position_.step >= plan_.options.min_steps;
  }
  bool stops_early() const {
    return plan_.options.patience > 0 && best_.should_stop() && is_past_minimum();
  }
  bool passes_time_limit() const;
  bool is_complete() const;
  bool finished() const;
  /// Interrupted in an epoch's last step, whose end comes with the resume, also where the run's does.
  bool owes_epoch_end() const { return position_.samples >= plan_.samples_per_epoch; }
  torch::nn::Module& module() { return *module_; }
  optim::Optimizer& optimizer() const { return parts_[0]->optimizer(); }
  StepContext context(Phase phase, size_t part = 0) const;
  void open_folder();
  track::EndRows earlier_end_rows() const;
  void make_task(const TaskMaker& make);
  void make_groups();
  void make_parts();
  void make_checkpoints();
  void measure_budget();
  std::function<StepResult()> example_step(size_t part, int64_t samples);
  void rehearse();
  void drop_step(Strategy& strategy, const std::function<StepResult()>& pass);
  void restore(const Checkpoint& checkpoint);
  tensor::NamedTensorList whole_parameters();
  /// work(), which is code of the task's own (task_words.h).
  template <class Work>
  auto of_task(std::string_view what, const Work& work) const {
    const auto when = [this] { return when_of(Phase::kTrain, position_.step); };
    return train::of_task(group_, task_.get(), what, when, work);
  }
  Step train_epoch();
  Step train_steps();
  void tell_loader_verdict();
  void train_step();
  Share next_share();
  std::vector<Share> all_shares(int64_t batches, int64_t samples);
  double factor_of(double weight, double of_all) const;
  void train_part(size_t index,
                  const optim::ScheduleValue& rate,
                  int64_t batches,
                  const std::function<Share(int64_t)>& share);
  std::shared_ptr<void> turn_of(size_t part);
  Json last_step() const;
  void load_last_step(const Json& last);
  Json scaler_state() const;
  void load_scalers(const Json& state);
  void load_hooks(const Checkpoint& checkpoint);
  void make_average();
  tensor::NamedTensorList whole_averages();
  void load_average(const Checkpoint& checkpoint);
  int64_t skipped_steps() const;
  const LossScaler& scaler() const { return parts_[0]->scaler(); }
  void backward(size_t index, const Share& share, bool last, StepSums& sums);
  void backward_in_pieces(size_t index, const Share& share, StepSums& sums);
  void post(size_t index, const StepSums& sums);
  void note_memory();
  double bytes_of_batches() const;
  std::optional<bool> is_room_in_batches() const noexcept;
  std::optional<MemoryNeeds> memory_needs(const memory::OomFacts& facts) const;
  std::vector<UnitNeeds> unit_needs() const;
  double state_share() const;
  void begin_pieces_memory();
  void end_pieces_memory();
  void make_guard();
  Share piece_of(const Share& share, const memory::MicroBatch& part) const;
  void check_weights_of_pieces(const Share& share, double of_pieces) const;
  void backward_guarded(size_t index, const std::vector<Share>& shares, bool last, StepSums& sums);
  void note_gradients() noexcept;
  Json guard_state() const;
  void load_guard(const Json& saved);
  std::optional<MemoryFailures> memory_failures() const;
  void mark_stages(const std::vector<pipeline::Span>& spans, double started_s);
  void update(TrainedPart& part, const StepSums& local);
  bool is_late() const { return !device_.is_cpu(); }
  void hear(size_t keep);
  void hear_all();
  void check_norm(MadeStep& step);
  void record_heard();
  Divergence::Where here() const {
    return {.position = position_, .lr = optimizer().lr(), .last_saved = last_saved_};
  }
  Divergence::Where in(const MadeStep& step) const {
    return {.position = step.before, .lr = step.lr, .last_saved = last_saved_};
  }
  void check_weights();
  void check_hooks();
  void clip_gradients(TrainedPart& part);
  void after_step(int64_t samples);
  int64_t step_in_epoch() const {
    return (position_.samples + plan_.samples_per_step - 1) / plan_.samples_per_step;
  }
  void write_train_row(double lr);
  bool is_validated() const { return data_.validation && data_.validation->size() > 0; }
  /// Whether that is in the epoch in hand.
  bool is_validated_now() const {
    return is_validated() && (position_.epoch + 1) % plan_.options.check_val_every_n_epoch == 0;
  }
  /// Whether val_check_interval has one after the step that was just made, inside the epoch.
  bool is_validated_after_step() const {
    const int64_t interval = plan_.options.val_check_interval;
    return is_validated_now() && !owes_epoch_end() && interval > 0 &&
           step_in_epoch() % interval == 0;
  }
  void try_validation();
  EvaluateOptions evaluate_options(Phase phase);
  void end_inside_epoch();
  void tell_end_inside_epoch();
  Metrics validation_to_tell();
  std::string keep_epoch() noexcept;
  std::string save_owed_epoch();
  double judging(const Metrics& seen, const std::string& name);
  Metrics score();
  Metrics validate();
  Step end_epoch();
  Evaluation evaluate_split(const std::shared_ptr<const data::Dataset>& split, Phase phase);
  void load_best();
  void test(FitResult& result);
  void save();
  bool is_written();
  void settle_folder();
  void check_folder();

  const FitRequest& run_;
  const FitPlan& plan_;
  const c10::Device device_;  // where all of this rank's steps are
  const c10::OptionalDeviceGuard on_device_{device_};
  distributed::ProcessGroup group_;
  std::filesystem::path output_;
  formats::TrainPosition position_;
  Hooks hooks_;
  const FitCallbacks& callbacks_;  // hooks_'s: none throws

  std::unique_ptr<RunFolder> mine_;    // rank 0, if the caller has none
  const RunFolder* folder_ = nullptr;  // rank 0
  RunFolder* owned_;                   // the caller's
  const Checkpoint* resume_;           // until run()
  FitData data_;
  std::unique_ptr<data::Loader> loader_;
  data::DeviceBatches batches_{device_, plan_.options.channels_last};
  data::LoaderStats loader_stats_;  // of all epochs of this process
  at::Generator generator_;         // of what the module draws while it trains: this rank's own
  std::unique_ptr<Task> task_;
  std::shared_ptr<torch::nn::Module> module_;
  Meter::List metrics_;
  std::optional<ParameterGroups> groups_;
  std::vector<std::unique_ptr<TrainedPart>> parts_;
  std::optional<parallel::UnitCheckpoints> checkpoints_;
  std::optional<WeightAverage> ema_;
  std::unique_ptr<memory::Guard> guard_;       // --on-oom split
  std::vector<memory::OwnedMemory> dropped_;   // the gradients of its last attempt that failed
  bool keeps_batches_ = true;                  // until a guarded step is made, all that it is of
  std::optional<int64_t> held_after_forward_;  // bytes, while they are measured
  int64_t peak_before_ = 0;                    // likewise: before the peak was last reset
  std::unique_ptr<optim::Schedule> schedule_;
  EarlyStopping best_;
  RunLog log_;
  Divergence divergence_;
  std::optional<CheckpointWriter> writer_;  // rank 0
  std::optional<StepReport> step_report_;
  StepTimeline timeline_;

  std::deque<MadeStep> made_;
  Meter step_meter_;                     // of all ranks, in the last step that is recorded
  Meter epoch_meter_;                    // since the start of the epoch: what the bar shows
  Meter window_meter_;                   // since the last row of metrics
  std::optional<double> gradient_norm_;  // of the last step that is recorded
  std::optional<data::Batch> stand_in_;
  bool counts_memory_ = true;  // the device's allocator tells
  bool stop_wished_ = false;
  bool time_is_over_ = false;  // all ranks know; see Note [Time limit]
  double before_s_ = 0;        // that earlier processes worked, as far as a checkpoint says it
  bool searches_lr_ = false;   // by the loss alone: a metric that is NaN is the run's to tell
  bool has_begun_ = false;
  bool has_folder_ = false;                             // open_folder() is through
  MemoryFailure::In in_ = MemoryFailure::In::kWeights;  // what is made, until it has begun
  bool goes_back_ = false;                              // a backward is under way, or has thrown
  bool updates_ = false;    // an optimizer's step is under way, or has thrown
  bool step_made_ = false;  // by some part: not left out by its loss scale
  int64_t best_step_ = -1;  // after which the best validation was
  int64_t validated_ = -1;  // after which this process made the newest one
  Metrics validation_;      // that one
  int64_t last_saved_ = -1;
  int64_t started_after_ = 0;  // the step that this process goes on from
  int64_t ended_at_ = -1;      // where the run's end was said
  int64_t checked_ = -1;       // the step whose weights are known to be finite
};

/// The error in hand; if memory ran out, in words of ours, with what to do, and with a report in the
/// run's folder. In a handler only.
[[noreturn]] void rethrow_with_memory(const FitRequest& run,
                                      const distributed::ProcessGroup& group,
                                      Trainer& trainer,
                                      std::string_view when);

}  // namespace muster::train::detail
