// A random forest that predicts a number from numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::tune {

/// A tree of splits: `value <= threshold` goes left. Node 0 is the root; a leaf has column -1.
struct RegressionTree {
  struct Node {
    int32_t column = -1;
    double threshold = 0;
    int32_t left = -1, right = -1;
    double value = 0;  ///< of a leaf: the mean of what fell into it
  };
  std::vector<Node> nodes;
};

struct ForestOptions {
  int64_t trees = 64;
  int64_t max_depth = 64;
  uint64_t seed = 0;
};

/// Trees of a bootstrap sample each, split where that leaves the least squared error, all columns
/// tried at each node, until what is in a leaf has one value. `columns` are equally long, as is
/// `values`; all numbers are finite. Of equal splits one is drawn, a function of the seed. Sources:
/// Breiman 2001, "Random Forests"; scikit-learn's RandomForestRegressor with its defaults.
std::vector<RegressionTree> grow_forest(std::span<const std::vector<double>> columns,
                                        std::span<const double> values,
                                        const ForestOptions& options = {});

}  // namespace muster::tune
