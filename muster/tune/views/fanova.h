// fANOVA: how much of what a trial reached each parameter by itself explains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/storage/parameter_table.h"
#include "muster/tune/views/importance.h"
#include "muster/tune/views/regression_forest.h"

namespace muster::tune {

/// From, to.
using ColumnBounds = std::array<double, 2>;

/// The variance of a tree's prediction over the whole box `bounds`, each place as likely; and of the
/// parts that groups of columns have in it by themselves, with all others averaged over. Exact.
/// Source: Hutter, Hoos, Leyton-Brown 2014, "An Efficient Approach for Assessing Hyperparameter
/// Importance", algorithm 2.
struct TreeVariances {
  double whole = 0;
  std::vector<double> groups;
};
TreeVariances tree_variances(const RegressionTree& tree,
                             std::span<const ColumnBounds> bounds,
                             std::span<const std::vector<size_t>> groups);

/// By group, the mean over all trees that vary of its part of the tree's variance; all 0 if none
/// does.
std::vector<double> forest_importance(std::span<const RegressionTree> trees,
                                      std::span<const ColumnBounds> bounds,
                                      std::span<const std::vector<size_t>> groups);

/// Shares by a forest that is fitted to the trials, most important first. Of parameters alone that
/// all trials had with one and the same range: others are not in it. Equal shares where nothing can
/// be said, as parameter_importance. Numbers are taken as they are (a range that is uniform in the
/// logarithm, too) and each choice is a column of zeros and ones, as optuna 5.0.0,
/// FanovaImportanceEvaluator, has them; the forest is another one.
std::vector<Importance> fanova_importance(const ParameterTable& table,
                                          const ForestOptions& options = {});

}  // namespace muster::tune
