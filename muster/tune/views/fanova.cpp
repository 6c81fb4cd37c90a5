#include "muster/tune/views/fanova.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <variant>

#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

double width(const ColumnBounds& range) { return range[1] - range[0]; }

/// The leaves of a tree: each a box, of which all together are the whole.
class TreePartition {
 public:
  TreePartition(const RegressionTree& tree, std::span<const ColumnBounds> bounds)
      : bounds_(bounds) {
    add(tree, 0, {bounds.begin(), bounds.end()});
    for (const Leaf& leaf : leaves_) mean_ += leaf.value * share(leaf.box);
    for (Leaf& leaf : leaves_) leaf.value -= mean_;
  }

  double variance() const {
    double sum = 0;
    for (const Leaf& leaf : leaves_) sum += leaf.value * leaf.value * share(leaf.box);
    return leaves_.size() == 1 ? 0 : sum;
  }

  double marginal_variance(std::span<const size_t> columns) const {
    return columns.size() == 1 ? variance_along(columns[0]) : variance_over(columns);
  }

 private:
  using Box = std::vector<ColumnBounds>;
  struct Leaf {
    double value;  // above the tree's mean
    Box box;
  };

  void add(const RegressionTree& tree, int32_t place, Box box) {
    const RegressionTree::Node& node = tree.nodes[static_cast<size_t>(place)];
    if (node.column < 0) {
      leaves_.push_back({node.value, std::move(box)});
      return;
    }
    const auto column = static_cast<size_t>(node.column);
    Box right = box;
    box[column][1] = node.threshold;
    right[column][0] = node.threshold;
    add(tree, node.left, std::move(box));
    add(tree, node.right, std::move(right));
  }

  double share_of(size_t column, const ColumnBounds& range) const {
    return width(range) / width(bounds_[column]);
  }

  /// Of the whole that a box has, without regard to these columns.
  double share(const Box& box, std::span<const size_t> without = {}) const {
    double product = 1;
    for (size_t column = 0; column < box.size(); ++column) {
      if (std::ranges::find(without, column) == without.end())
        product *= share_of(column, box[column]);
    }
    return product;
  }

  /// The mean over all other columns is a step function of this one.
  double variance_along(size_t column) const {
    std::vector<double> steps = {bounds_[column][0], bounds_[column][1]};
    for (const Leaf& leaf : leaves_) steps.push_back(leaf.box[column][0]);
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    std::vector<double> means(steps.size() - 1, 0);
    for (const Leaf& leaf : leaves_) {
      const double part = leaf.value * share(leaf.box, std::span(&column, 1));
      const auto from = std::ranges::lower_bound(steps, leaf.box[column][0]) - steps.begin();
      for (auto i = static_cast<size_t>(from); steps[i] < leaf.box[column][1]; ++i)
        means[i] += part;
    }
    double sum = 0;
    for (size_t i = 0; i < means.size(); ++i)
      sum += means[i] * means[i] * share_of(column, {steps[i], steps[i + 1]});
    return sum;
  }

  /// The same in several columns, where a grid of all steps would have too many cells: the function
  /// is a sum over boxes, so its square is one over pairs of boxes, each over what the two share.
  double variance_over(std::span<const size_t> columns) const {
    std::map<Box, double> parts;
    for (const Leaf& leaf : leaves_) {
      Box box;
      for (const size_t column : columns) box.push_back(leaf.box[column]);
      parts[std::move(box)] += leaf.value * share(leaf.box, columns);
    }
    double sum = 0;
    for (auto a = parts.begin(); a != parts.end(); ++a) {
      for (auto b = parts.begin(); b != a; ++b)
        sum += 2 * a->second * b->second * common_share(a->first, b->first, columns);
      sum += a->second * a->second * common_share(a->first, a->first, columns);
    }
    return std::max(sum, 0.0);
  }

  double common_share(const Box& a, const Box& b, std::span<const size_t> columns) const {
    double product = 1;
    for (size_t i = 0; i < columns.size() && product > 0; ++i) {
      const ColumnBounds both{std::max(a[i][0], b[i][0]), std::min(a[i][1], b[i][1])};
      product *= std::max(0.0, share_of(columns[i], both));
    }
    return product;
  }

  std::span<const ColumnBounds> bounds_;
  std::vector<Leaf> leaves_;
  double mean_ = 0;
};

// ---- Columns of a study ----

struct ForestInput {
  std::vector<std::vector<double>> columns;
  std::vector<ColumnBounds> bounds;
  std::vector<std::vector<size_t>> groups;  // by parameter; empty: it has one value

  void add(const ParameterTable::Regime& regime) {
    std::vector<size_t>& group = groups.emplace_back();
    std::visit([&](const auto& d) { add(d, regime, group); }, regime.distribution);
  }

 private:
  void add_column(std::vector<double> column, ColumnBounds range, std::vector<size_t>& group) {
    group.push_back(columns.size());
    columns.push_back(std::move(column));
    bounds.push_back(range);
  }

  void add(const CategoricalDistribution& d,
           const ParameterTable::Regime& regime,
           std::vector<size_t>& group) {
    for (size_t choice = 0; choice < d.choices.size() && d.choices.size() > 1; ++choice) {
      std::vector<double> is_it;
      for (const size_t place : order_of(regime))
        is_it.push_back(regime.numbers[place] == static_cast<double>(choice) ? 1 : 0);
      add_column(std::move(is_it), {0, 1}, group);
    }
  }

  template <class Numbers>
  void add(const Numbers& d, const ParameterTable::Regime& regime, std::vector<size_t>& group) {
    const auto [low, high] = ends(d);
    if (!(low < high)) return;
    const double unit = std::isfinite(high - low) ? 1 : 0.5;
    std::vector<double> numbers;
    for (const size_t place : order_of(regime)) numbers.push_back(unit * regime.numbers[place]);
    add_column(std::move(numbers), {unit * low, unit * high}, group);
  }

  template <class Numbers>
  static ColumnBounds ends(const Numbers& d) {
    return {static_cast<double>(d.low), static_cast<double>(d.high)};
  }
  static ColumnBounds ends(const NormalDistribution& d) { return ends_of(Distribution(d)); }

  /// By trial the place in the regime.
  static std::vector<size_t> order_of(const ParameterTable::Regime& regime) {
    std::vector<size_t> order(regime.trials.size());
    for (size_t i = 0; i < order.size(); ++i) order[regime.trials[i]] = i;
    return order;
  }
};

/// In a unit in which squares are doubles: shares of the variance are the same in each.
std::vector<double> squarable(std::vector<double> values) {
  constexpr double kLarge = 1e100;
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  if (largest == 0 || (largest < kLarge && largest > 1 / kLarge)) return values;
  for (double& value : values) value = std::ldexp(value, -std::ilogb(largest));
  return values;
}

}  // namespace

TreeVariances tree_variances(const RegressionTree& tree,
                             std::span<const ColumnBounds> bounds,
                             std::span<const std::vector<size_t>> groups) {
  const TreePartition partition(tree, bounds);
  TreeVariances out{.whole = partition.variance()};
  for (const std::vector<size_t>& group : groups)
    out.groups.push_back(group.empty() ? 0 : partition.marginal_variance(group));
  return out;
}

std::vector<double> forest_importance(std::span<const RegressionTree> trees,
                                      std::span<const ColumnBounds> bounds,
                                      std::span<const std::vector<size_t>> groups) {
  std::vector<double> sums(groups.size(), 0);
  int64_t count = 0;
  for (const RegressionTree& tree : trees) {
    const TreeVariances variances = tree_variances(tree, bounds, groups);
    if (!(variances.whole > 0)) continue;
    ++count;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += variances.groups[i] / variances.whole;
  }
  for (double& sum : sums) sum = count > 0 ? sum / static_cast<double>(count) : 0;
  return sums;
}

std::vector<Importance> fanova_importance(const ParameterTable& table,
                                          const ForestOptions& options) {
  ForestInput input;
  std::vector<Importance> out;
  for (const ParameterTable::Column& column : table.columns) {
    if (column.regimes.size() != 1 || column.regimes[0].trials.size() != table.values.size())
      continue;
    out.push_back({.parameter = column.name});
    input.add(column.regimes[0]);
  }
  std::vector<double> parts(out.size(), 0);
  if (!input.columns.empty() && table.values.size() > 1)
    parts = forest_importance(
        grow_forest(input.columns, squarable(table.values), options), input.bounds, input.groups);
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  for (size_t i = 0; i < out.size(); ++i)
    out[i].share = sum > 0 ? parts[i] / sum : 1 / static_cast<double>(out.size());
  std::ranges::stable_sort(out, std::greater(), &Importance::share);
  return out;
}

}  // namespace muster::tune
