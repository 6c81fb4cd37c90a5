// What a run of `muster train` will do: the plan in which every default of its options is filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/base/params.h"
#include "muster/data/dataset.h"
#include "muster/formats/csv_data.h"
#include "muster/models/model.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// What `muster train` will do.
struct TrainPlan : FitNumbers {
  TrainOptions options;  ///< auto and -1 replaced
  std::string model_name, data_name;
  ParamValues model_params, data_params;
  data::DataSpec spec;             ///< of the data as it is
  models::ImageShape model_shape;  ///< what the model sees: resized, channels repeated
  std::string learned;             ///< Dataset::learned() of the training split
  /// Of a regression, as the data say: what its targets are standardised by.
  std::optional<formats::TargetScale> target_scale;
  /// How images of evaluations differ from those that are trained on.
  std::vector<std::string> input_remarks;
};

/// Throws a usage error as resolve_fit(), and for an unknown model, a model that cannot take the
/// data, or a last batch that BatchNorm cannot take.
TrainPlan resolve(const TrainOptions& options,
                  const Surroundings& around,
                  const data::Dataset& train,
                  const data::Dataset& test);

/// The same for fit(), which knows no model by name.
FitPlan fit_plan(const TrainPlan& plan);

/// What only a run that starts anew needs: throws a usage error if the file of --weights is not
/// there.
void check_weights(const TrainPlan& plan);

/// Throws a usage error where a run's record names its classes, and the data have others: a class is a
/// number to the model, and another folder in between moves all that follow.
void check_class_names(const Json& record, const data::DataSpec& spec, const std::string& data);

/// For errors: what is said of the data, where they lie now.
std::string said_data(const std::string& data, const std::filesystem::path& data_dir);

/// Of a checkpoint's plan: what its training split taught (Dataset::learned()), or "".
std::string learned_before(const Json& record);

/// Throws a usage error where a run that goes on would read its samples otherwise than before: by
/// another vocabulary, say. It names the first difference.
void check_learned(const Json& record, const std::string& learned, const std::string& data);

/// What was said and what became of it, for config.json and checkpoints. Paths are absolute, so that
/// a run can be resumed from any folder.
Json to_json(const TrainPlan& plan);

/// One line per decision, for --explain.
std::string explain(const TrainPlan& plan);

}  // namespace muster::train
