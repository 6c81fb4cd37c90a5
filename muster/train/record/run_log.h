// What rank 0 records and shows of a run: rows of metrics, TensorBoard events, progress, lines for
// people, and at the end a page.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/formats/checkpoint_index.h"
#include "muster/track/metrics_log.h"
#include "muster/track/progress.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/record/tensorboard_log.h"

namespace muster::train {

/// On other ranks than the first all members do nothing. Used by the rank's own thread.
class RunLog {
 public:
  /// Writes nothing.
  RunLog(const FitPlan& plan,
         const std::filesystem::path& output,
         bool is_first,
         const FitCallbacks& callbacks);

  /// Writes config.json and opens the other files, before the first step. `resumed_after`: the step
  /// of the checkpoint that the run goes on from, -1 for a new run; rows of metrics and events
  /// beyond it are dropped, and its rows of `ends`. `metrics` are the task's.
  void open(int64_t resumed_after, const std::vector<Metric>& metrics, track::EndRows ends);

  /// Earlier processes worked so long on the run, which their last rows may not tell.
  void count_before(double seconds) { before_s_ = std::max(before_s_, seconds); }
  /// The same, by what their rows up to this step tell. Before open().
  void count_rows_before(int64_t step);

  /// Once open: an earlier process wrote a row of `train` at the step that the run goes on from.
  bool has_train_row() const { return metrics_ && metrics_->has_train_row(); }

  /// Training in an epoch begins or goes on: epoch_s of the rows counts from here.
  void begin_epoch() { epoch_start_ = Clock::now(); }

  /// One optimizer step was made: `samples` over all ranks, `seconds` with its wait for data.
  void count_step(int64_t samples, double seconds);

  struct TrainRow {
    double lr = 0;
    std::optional<double> gradient_norm;
  };
  void train(const formats::TrainPosition& position, const Metrics& metrics, const TrainRow& row);
  void evaluated(const std::string& phase,
                 const formats::TrainPosition& position,
                 const Metrics& metrics);

  /// For --tensorboard all: pictures of the first batch that comes // [N, C, H, W], or undefined;
  /// weights and gradients.
  bool wants_images() const { return pictures_due_; }
  void images(const at::Tensor& images, const formats::TrainPosition& position);
  void weights(const tensor::NamedTensorList& parameters, const formats::TrainPosition& position);

  /// To the progress bar, at most some ten times a second unless `step` is the last one. `metrics`
  /// are of all ranks; empty ones: numbers are not known yet.
  void progress(const std::string& phase,
                const formats::TrainPosition& position,
                int64_t step,
                int64_t steps,
                const Metrics& metrics);
  void note(const std::string& line) const;

  /// Ends the events and writes index.html, curves.svg and confusion_matrix.csv. False, and a note, if
  /// they could not be written.
  bool end_run(const FitResult& result);

  /// The same for a run that ends with an error after `steps` steps, and why. Throws nothing: the
  /// error is what counts.
  void diverged(int64_t steps, const std::string& why);

  /// Since the start of the run, without the time in which no process worked on it: those before
  /// this one count until their last row.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  track::MetricsRow row(const std::string& phase,
                        const formats::TrainPosition& position,
                        const Metrics& metrics) const;
  void write(const track::MetricsRow& row);
  void open_tensorboard(int64_t resumed_after, const std::vector<Metric>& metrics);

  const FitPlan& plan_;
  const FitCallbacks& callbacks_;
  std::filesystem::path output_;
  bool is_first_;
  bool pictures_due_ = false;
  const Clock::time_point start_ = Clock::now();
  double before_s_ = 0;  // of earlier processes
  std::optional<track::MetricsLog> metrics_;
  std::optional<TensorBoardLog> tensorboard_;
  int64_t steps_here_ = 0;  // by this process, for the time left
  int64_t samples_here_ = 0;
  double step_seconds_ = 0;
  Clock::time_point epoch_start_{};
  Clock::time_point last_progress_{};
};

}  // namespace muster::train
