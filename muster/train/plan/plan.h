// What a run will do: options as the user said them, and the plan in which every default is filled
// in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/base/params.h"
#include "muster/data/dataset.h"
#include "muster/models/model.h"
#include "muster/train/loop/precision.h"
#include "muster/train/plan/options.h"

namespace muster::train {

/// Resolved; only this is read by the training.
struct TrainPlan {
  TrainOptions options;  ///< auto and -1 replaced
  std::string model_name, data_name, strategy_name, optimizer_name, schedule_name;
  ParamValues model_params, data_params, strategy_params, optimizer_params, schedule_params;
  PrecisionOptions precision;
  double lr = 0;
  int64_t world_size = 1;
  int64_t batch_per_rank = 0;    ///< samples of a rank per forward; an epoch's last may be fewer
  int64_t samples_per_step = 0;  ///< of all ranks, per optimizer step
  int64_t train_samples = 0;
  int64_t validation_samples = 0;
  int64_t test_samples = 0;
  int64_t samples_per_epoch = 0;  ///< train_samples, or its whole batches: --drop-last
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  std::string train_fingerprint;     ///< Dataset::fingerprint(), eight hexadecimal digits
  std::string test_fingerprint;      ///< so that other data of the same size are noticed
  int64_t intraop_threads = 1;       ///< per rank; with another number sums round otherwise
  data::DataSpec spec;               ///< of the data as it is
  models::ImageShape model_shape;    ///< what the model sees: resized, channels repeated
  bool monitor_falls = false;        ///< the best epoch has the least value
  std::vector<std::string> remarks;  ///< for people: what will work and may not be meant
};

/// "mlp:hidden=64" -> {"mlp", {{"hidden", "64"}}}.
std::pair<std::string, ParamValues> split_spec(const std::string& spec);

/// How many ranks a launcher started and what each may use.
struct Surroundings {
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t cores = 1;
  int64_t intraop_threads = 0;  ///< of the calling thread's operators; 0: as many as ATen has now
};

/// Throws a usage error for an unknown name, a number out of range, a batch size that the ranks
/// cannot share equally, a model that cannot take the data, a last batch that BatchNorm cannot take,
/// or a strategy that is not for these surroundings. `auto` is single on one rank, ddp on more, and
/// dp where --devices is said.
TrainPlan resolve(const TrainOptions& options,
                  const Surroundings& around,
                  const data::Dataset& train,
                  const data::Dataset& test);

/// What only a run that starts anew needs: throws a usage error if the file of --weights is not
/// there.
void check_weights(const TrainPlan& plan);

/// What was said and what became of it, for config.json and checkpoints. Paths are absolute, so that
/// a run can be resumed from any folder.
Json to_json(const TrainPlan& plan);

/// Fills `options` from a checkpoint's plan. Options named in `said` were given by the user now and
/// stay. Throws a usage error that lists the differences if one that shapes the numbers (model,
/// data, weights to start from, optimizer, batch size, seed, validation samples) was given anew with
/// another value.
void take_over(const Json& plan, const std::vector<std::string>& said, TrainOptions& options);

/// One line per decision, for --explain.
std::string explain(const TrainPlan& plan);

}  // namespace muster::train
