// What a training will do, whatever its task: every default filled in, every number counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/options.h"
#include "muster/train/plan/precision.h"

namespace muster::train {

// Note [Fast dev run]
// As Lightning's: does the program run at all? One epoch of one step on one batch, a batch of the
// validation, one of the test, whatever --epochs, --max-steps, --max-time and the limits say; without early
// stopping. The schedule's rate is that of the whole run's first step. fit() writes and saves as
// ever to the folder it is given; a program gives it a temporary one, and removes it at the end.

/// Samples of the splits; a run may be without validation, or without test.
struct SplitFacts {
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;
  std::string train_fingerprint;       ///< Dataset::fingerprint(), eight hexadecimal digits
  std::string test_fingerprint;        ///< empty without a test split
  std::string validation_fingerprint;  ///< empty without one
};

/// What follows from the options.
struct FitNumbers {
  std::string strategy_name, optimizer_name, schedule_name;
  ParamValues strategy_params, optimizer_params, schedule_params;
  double most_momentum = 0;  ///< that the schedule sets; see optim::most_momentum()
  PrecisionOptions precision;
  double lr = 0;
  int64_t world_size = 1;
  int64_t ranks_per_replica = 1;  ///< that hold one model between them and see the same samples
  int64_t batch_per_rank = 0;     ///< samples of a rank per forward; an epoch's last may be fewer
  int64_t samples_per_step = 0;   ///< of all ranks, per optimizer step
  int64_t train_samples = 0;
  int64_t validation_samples = 0;
  int64_t test_samples = 0;
  int64_t samples_per_epoch = 0;  ///< train_samples, or less: drop_last, limit_train_batches
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  int64_t schedule_steps = 0;     ///< total_steps, and of a fast dev run those of the whole run
  int64_t schedule_epochs = 0;    ///< likewise
  std::string train_fingerprint;  ///< so that other data of the same size are noticed
  std::string test_fingerprint;
  std::string validation_fingerprint;
  int64_t threads = 0;  ///< ranks that are threads of this process; 0: it is one rank
  std::vector<c10::Device> devices{c10::kCPU};          ///< where these ranks compute: one each
  std::vector<c10::Device> machine_devices{c10::kCPU};  ///< those of all ranks of this machine
  std::string device_reason;         ///< what --device auto found; empty: asked for
  int64_t intraop_threads = 1;       ///< per rank; with another number sums round otherwise
  std::string monitored;             ///< the metric of options.monitor: "accuracy"
  bool monitor_falls = false;        ///< the best epoch has the least value
  std::vector<std::string> remarks;  ///< for people: what will work and may not be meant
};

/// Resolved; only this is read by the training.
struct FitPlan : FitNumbers {
  FitOptions options;             ///< auto and -1 replaced
  std::string title;              ///< "cnn on fashion-mnist": of the run's page
  Json record = Json::object();   ///< for config.json and checkpoints; see to_json()
  Json carried = Json::object();  ///< for checkpoints besides: too long for people to read
  /// Strategy::record() of the probe whose batch size was taken; else null.
  Json strategy_found = nullptr;
  std::string explained;  ///< one line per decision
};

/// The samples of the first `batches` batches; all of them if that is -1.
int64_t limited_samples(int64_t samples, int64_t batches, int64_t batch_size);

/// The options as they were resolved, and the numbers: a record for config.json and checkpoints.
Json to_json(const FitOptions& options, const FitNumbers& numbers);
Json to_json(const TrainOptions& options, const FitNumbers& numbers);
/// The numbers alone.
Json to_json(const FitNumbers& numbers);
/// FitPlan::carried: the samples that --validation-split file:FILE listed when the run began.
Json carried_json(const TrainOptions& options);

/// Options that a run which goes on does not have from before, but from where it is now.
inline constexpr std::string_view kOfOnePlace[] = {
    "strategy", "device", "devices", "workers", "backend"};

bool is_of_one_place(std::string_view option);

/// Fills `options` from a checkpoint's plan. Options named in `said` were given by the user now and
/// stay, and so do those of kOfOnePlace. Throws a usage error that lists the differences if one that shapes the numbers (model,
/// data, weights to start from, optimizer, batch size, seed, validation samples) was given anew with
/// another value.
void take_over(const Json& plan, const std::vector<std::string>& said, TrainOptions& options);
void take_over(const Json& plan, const std::vector<std::string>& said, FitOptions& options);

/// The plan of a run that goes on, with what this start was told anew: the options of `told` (as
/// to_json() has them, and what the run carries) that a resumed run may say otherwise, and where
/// its data lie; not those of kOfOnePlace, which are of the start that made the checkpoint. A plan
/// that nobody recorded stays empty.
Json with_options_of(const Json& plan, const Json& told);

/// The plan without what a start that goes on may change in that way: it tells a checkpoint from
/// another run's.
Json without_told(const Json& plan);

/// Of a checkpoint's plan: the communication hook whose state it holds, where another one was told
/// since.
inline constexpr const char* kHookOfState = "comm_hook_of_state";

/// Of what a plan carries: what the training split has taught (Dataset::learned()).
inline constexpr const char* kLearned = "learned";

/// Of a plan that is a record: the search that found its rate, LearningRate::found_by.
inline constexpr const char* kFoundBy = "lr_search";

/// The same for its batch size, BatchSize::found_by.
inline constexpr const char* kBatchFoundBy = "batch_search";

/// The rate that a run has from its checkpoint's plan, where no number is said. `search`: the one that is
/// asked for now, or "". Throws a usage error for one of a run that began without.
LearningRate kept_rate(const Json& plan, const std::string& search);

/// Lines for --explain, from the optimizer on; `loss` is what is known of it.
std::string explain(const FitOptions& options, const FitNumbers& plan, const std::string& loss);
/// One such line.
std::string explained_line(std::string_view what, std::string_view text);

}  // namespace muster::train
