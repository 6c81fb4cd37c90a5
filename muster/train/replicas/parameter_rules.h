// How some parameters are trained otherwise than the rest.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace muster::train {

struct ParameterRule {
  double lr_factor = 1;                ///< of the run's rate
  std::optional<double> weight_decay;  ///< the optimizer's own if not said

  friend auto operator<=>(const ParameterRule&, const ParameterRule&) = default;
};

/// By the parameter's name in the module that is trained; those that are not there have the default.
using ParameterRules = std::map<std::string, ParameterRule, std::less<>>;

}  // namespace muster::train
