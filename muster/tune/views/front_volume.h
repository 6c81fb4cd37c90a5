// How much trials of a study of several objectives have reached together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/objective/objective.h"

namespace muster::tune {

struct FrontVolume {
  double volume = 0;  ///< that their front dominates
  std::string from;   ///< "accuracy 0.2, step_s 3.1": the worst result of each objective
  std::vector<double> worst = {};  ///< the same, by objective; empty if there is no result
};

/// The hypervolume (hypervolume.h) of results of feasible trials, one by objective each, from their
/// worst ones; rows with what is not finite are passed over.
FrontVolume front_volume(std::span<const std::vector<double>> results,
                         std::span<const Objective> objectives);

/// Adds {"hypervolume": 0.41, "hypervolume_from": {"accuracy": 0.2, "step_s": 3.1}}, or null for both
/// if there is no result.
void add_json(const FrontVolume& volume, std::span<const Objective> objectives, Json& json);

}  // namespace muster::tune
