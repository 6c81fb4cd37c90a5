// What a training will do, whatever its task: every default filled in, every number counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/options.h"
#include "muster/train/plan/precision.h"

namespace muster::train {

/// How many ranks a launcher started and what each may use.
struct Surroundings {
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t cores = 1;
  int64_t intraop_threads = 0;  ///< of the calling thread's operators; 0: as many as ATen has now
};

/// Samples of the splits; a run may be without validation, or without test.
struct SplitFacts {
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;
  std::string train_fingerprint;  ///< Dataset::fingerprint(), eight hexadecimal digits
  std::string test_fingerprint;   ///< empty without a test split
};

/// What follows from the options.
struct FitNumbers {
  std::string strategy_name, optimizer_name, schedule_name;
  ParamValues strategy_params, optimizer_params, schedule_params;
  PrecisionOptions precision;
  double lr = 0;
  int64_t world_size = 1;
  int64_t batch_per_rank = 0;    ///< samples of a rank per forward; an epoch's last may be fewer
  int64_t samples_per_step = 0;  ///< of all ranks, per optimizer step
  int64_t train_samples = 0;
  int64_t validation_samples = 0;
  int64_t test_samples = 0;
  int64_t samples_per_epoch = 0;  ///< train_samples, or its whole batches: drop_last
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  std::string train_fingerprint;     ///< so that other data of the same size are noticed
  std::string test_fingerprint;
  int64_t intraop_threads = 1;       ///< per rank; with another number sums round otherwise
  std::string monitored;             ///< the metric of options.monitor: "accuracy"
  bool monitor_falls = false;        ///< the best epoch has the least value
  std::vector<std::string> remarks;  ///< for people: what will work and may not be meant
};

/// Resolved; only this is read by the training.
struct FitPlan : FitNumbers {
  FitOptions options;            ///< auto and -1 replaced
  std::string title;             ///< "cnn on fashion-mnist": of the run's page
  Json record = Json::object();  ///< for config.json and checkpoints; see to_json()
  std::string explained;         ///< one line per decision
};

/// "mlp:hidden=64" -> {"mlp", {{"hidden", "64"}}}.
std::pair<std::string, ParamValues> split_spec(const std::string& spec);

/// Replaces auto and -1 in `options`, and counts. Throws a usage error, by the name of the flag, for
/// an unknown name, a number out of range, a batch size that the ranks cannot share equally, a
/// metric to monitor that is not among `metrics`, what validation samples must decide where there
/// are none, or a strategy that is not for these surroundings. `auto` is single on one rank, ddp on
/// more, and dp where --devices is said.
FitNumbers resolve_fit(FitOptions& options,
                       const Surroundings& around,
                       const SplitFacts& splits,
                       const std::vector<Metric>& metrics);

/// The options as they were resolved, and the numbers: a record for config.json and checkpoints.
Json to_json(const FitOptions& options, const FitNumbers& numbers);
/// The numbers alone.
Json to_json(const FitNumbers& numbers);

/// Fills `options` from a checkpoint's record, as take_over() for TrainOptions does; see plan.h.
void take_over(const Json& plan, const std::vector<std::string>& said, FitOptions& options);

/// Lines for --explain, from the optimizer on; `loss` is what is known of it.
std::string explain(const FitOptions& options, const FitNumbers& plan, const std::string& loss);
/// One such line.
std::string explained_line(std::string_view what, std::string_view text);

}  // namespace muster::train
