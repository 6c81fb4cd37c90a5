// What a run will do: options as the user said them, and the plan in which every default is filled
// in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/data/dataset.h"

namespace muster::train {

/// As said. Names that take parameters are written name:key=value,key=value.
struct TrainOptions {
  std::string model = "cnn";
  std::string data = "fashion-mnist";
  std::filesystem::path data_dir;  ///< empty: the dataset's own places
  std::string strategy = "auto";   ///< auto, single, ddp
  std::string backend = "auto";    ///< a name of `muster list backends`, or auto
  std::string optimizer = "sgd";
  std::optional<double> lr;  ///< the optimizer's own default if not given
  int64_t epochs = 5;
  int64_t batch_size = 128;  ///< global: all ranks together
  int64_t validation_samples =
      -1;  ///< held out from the end of the training split; -1: a twelfth, at most 5,000
  int64_t max_steps = 0;  ///< stop after so many steps of the whole run; 0: no limit
  int64_t seed = 0;
  int64_t workers = -1;  ///< loader threads per rank; -1: from cores and ranks
  int64_t checkpoint_every =
      0;  ///< steps between checkpoints, besides one per epoch; 0: only those
  int64_t keep_checkpoints = 3;
  int64_t log_every = 50;  ///< steps per row of metrics
};

/// Resolved; only this is read by the training.
struct TrainPlan {
  TrainOptions options;  ///< auto and -1 replaced
  std::string model_name, data_name, optimizer_name;
  ParamValues model_params, data_params, optimizer_params;
  double lr = 0;
  int64_t world_size = 1;
  int64_t batch_per_rank = 0;
  int64_t train_samples = 0;
  int64_t validation_samples = 0;
  int64_t test_samples = 0;
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  data::DataSpec spec;
};

/// "mlp:hidden=64" -> {"mlp", {{"hidden", "64"}}}.
std::pair<std::string, ParamValues> split_spec(const std::string& spec);

/// How many ranks there are and what each may use.
struct Surroundings {
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t cores = 1;
};

/// Pure. Throws a usage error for an unknown name, a number out of range, a batch size that the
/// ranks cannot share equally, or a model that cannot take the data.
TrainPlan resolve(const TrainOptions& options,
                  const Surroundings& around,
                  const data::Dataset& train,
                  const data::Dataset& test);

/// What was said and what became of it, for config.json and checkpoints.
Json to_json(const TrainPlan& plan);

/// Fills `options` from a checkpoint's plan. Options named in `said` were given by the user now and
/// stay. Throws a usage error that lists the differences if one that shapes the numbers (model,
/// data, optimizer, batch size, seed, validation samples) was given anew with another value.
void take_over(const Json& plan, const std::vector<std::string>& said, TrainOptions& options);

/// One line per decision, for --explain.
std::string explain(const TrainPlan& plan);

}  // namespace muster::train
