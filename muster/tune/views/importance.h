// Which parameters decided whether a trial was good.
#pragma once

#include <string>
#include <vector>

#include "muster/tune/space/value.h"
#include "muster/tune/storage/parameter_table.h"

namespace muster::tune {

struct Importance {
  std::string parameter;
  double share = 0;  ///< of all; they sum to 1
};

/// PED-ANOVA: how far each parameter's distribution among the best tenth of the trials is from that
/// among all, most important first. Equal shares where nothing can be said (fewer than two trials,
/// all alike). Parameters under a condition weigh by how often they apply. Milliseconds for
/// thousands of trials. Sources: Watanabe, Bansal, Hutter 2023, "PED-ANOVA", algorithm 1; the
/// conditional form: "Conditional PED-ANOVA", 2026, theorem 4.2; numbers are those of optuna 5.0.0,
/// get_param_importances.
std::vector<Importance> parameter_importance(const ParameterTable& table, Mode mode);

/// How many trials that takes for the best ones: a tenth, and those as good as its last one.
size_t best_trials(const ParameterTable& table, Mode mode);

}  // namespace muster::tune
