// What completed trials had for each parameter, as Optuna's tables hold it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

/// The completed trials of a study that have a finite value, ours and Optuna's own alike.
struct ParameterTable {
  /// Trials that had the parameter with one and the same distribution.
  struct Regime {
    Distribution distribution;    ///< both ends included, as Optuna has them
    std::vector<size_t> trials;   ///< places in `values`
    std::vector<double> numbers;  ///< of those trials: the value, or the index of a category
  };
  struct Column {
    std::string name;
    std::vector<Regime> regimes;  ///< empty: only trials without a finite value had it
  };
  std::vector<double> values;   ///< by trial: the objective
  std::vector<Column> columns;  ///< by name
};

/// `objective` is the place of one in a study of several. Opens nothing for writing. Throws a usage
/// error if the file or the study is not there or cannot be read, or if it has several objectives and
/// none is said.
ParameterTable read_parameter_table(const std::filesystem::path& file,
                                    std::string_view study,
                                    std::optional<size_t> objective = std::nullopt);

}  // namespace muster::tune
