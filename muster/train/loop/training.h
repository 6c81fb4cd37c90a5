// One run on one rank: the class behind train().
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "muster/data/loader/loader.h"
#include "muster/models/model.h"
#include "muster/optim/schedule.h"
#include "muster/train/checkpoints/checkpoint_writer.h"
#include "muster/train/loop/divergence.h"
#include "muster/train/loop/early_stopping.h"
#include "muster/train/loop/precision.h"
#include "muster/train/loop/step_report.h"
#include "muster/train/loop/step_timeline.h"
#include "muster/train/loop/trainer.h"
#include "muster/train/record/run_log.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

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
          const TrainCallbacks& callbacks,
          RunFolder* owned);

  TrainResult run();

 private:
  enum class Step { kDone, kStopped };

  bool stops_early() const { return plan_.options.patience > 0 && best_.should_stop(); }
  bool finished() const;
  void build_model(bool is_resumed);
  void restore(const Checkpoint& checkpoint);
  Step train_epoch();
  void train_step(data::Epoch& epoch);
  void backward(const data::Batch& batch, double weight, bool last, Meter& sum);
  void update();
  Divergence::Where here() const {
    return {.position = position_, .lr = strategy_->optimizer().lr(), .last_saved = last_saved_};
  }
  void check_weights();
  void clip_gradients();
  void after_step(int64_t samples);
  void write_train_row();
  void end_inside_epoch();
  Step end_epoch();
  Evaluation evaluate_split(const DatasetPtr& split, const std::string& phase);
  void load_best();
  void test(TrainResult& result);
  void save();
  bool is_written();
  void check_folder();

  const TrainPlan& plan_;
  distributed::ProcessGroup group_;
  std::filesystem::path output_;
  const TrainCallbacks& callbacks_;

  std::unique_ptr<RunFolder> mine_;    // rank 0, if the caller has none
  const RunFolder* folder_ = nullptr;  // rank 0
  SplitData data_;
  std::unique_ptr<data::Loader> loader_;
  at::Generator generator_;  // of what the model draws while it trains: this rank's own
  Model model_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<optim::Schedule> schedule_;
  EarlyStopping best_;
  RunLog log_;
  Divergence divergence_;
  std::optional<CheckpointWriter> writer_;  // rank 0
  LossScaler scaler_;
  StepReport step_report_;
  StepTimeline timeline_;

  formats::TrainPosition position_;
  Meter epoch_meter_;   // since the start of the epoch: what the bar shows
  Meter window_meter_;  // since the last row of metrics
  std::optional<double> gradient_norm_;
  int64_t best_step_ = -1;  // where the best epoch ended
  int64_t last_saved_ = -1;
  int64_t started_after_ = 0;  // the step that this process goes on from
  int64_t checked_ = -1;       // the step whose weights are known to be finite
};

}  // namespace muster::train::detail
