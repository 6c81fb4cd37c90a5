// What rank 0 records and shows of a run: rows of metrics, progress, lines for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/track/metrics_log.h"
#include "muster/track/progress.h"
#include "muster/train/checkpoint.h"
#include "muster/train/meter.h"
#include "muster/train/plan.h"
#include "muster/train/trainer.h"

namespace muster::train {

/// On other ranks than the first all members do nothing. Used by the rank's own thread.
class RunLog {
 public:
  /// `resumed_after`: the step of the checkpoint that the run goes on from, -1 for a new run.
  RunLog(const TrainPlan& plan,
         const std::filesystem::path& output,
         int64_t resumed_after,
         bool is_first,
         const TrainCallbacks& callbacks);

  /// One optimizer step was made: `samples` over all ranks, `seconds` with its wait for data.
  void count_step(int64_t samples, double seconds);

  struct TrainRow {
    double lr = 0;
    std::optional<double> gradient_norm;
  };
  void train(const TrainPosition& position, const Meter& meter, const TrainRow& row);
  void evaluated(const std::string& phase,
                 const TrainPosition& position,
                 const Evaluation& evaluation);

  /// To the progress bar, at most some ten times a second unless `step` is the last one.
  void progress(const std::string& phase,
                const TrainPosition& position,
                int64_t step,
                int64_t steps,
                const Meter& meter);
  void note(const std::string& line) const;
  void finish(const TrainResult& result, const TrainPosition& position);

  double seconds() const;  ///< since the start

 private:
  using Clock = std::chrono::steady_clock;

  track::MetricsRow row(const std::string& phase,
                        const TrainPosition& position,
                        const Meter& meter) const;

  const TrainPlan& plan_;
  const TrainCallbacks& callbacks_;
  bool is_first_;
  const Clock::time_point start_ = Clock::now();
  std::optional<track::MetricsLog> metrics_;
  int64_t steps_here_ = 0;  // by this process, for the time left
  int64_t samples_here_ = 0;
  double step_seconds_ = 0;
  Clock::time_point last_progress_{};
};

}  // namespace muster::train
