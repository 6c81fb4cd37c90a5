#include "muster/tune/views/regression_forest.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace muster::tune {
namespace {

/// Grows one tree. Samples are places in the bootstrap sample; each column has them sorted by its
/// numbers, and a node is one range of all these lists, which a split parts into two, in order.
class TreeGrower {
 public:
  TreeGrower(std::span<const std::vector<double>> columns,
             std::span<const double> values,
             int64_t max_depth,
             uint64_t seed)
      : columns_(columns), values_(values), max_depth_(max_depth), random_(seed) {}

  RegressionTree grow() {
    draw_samples();
    tree_.nodes.emplace_back();
    struct Range {
      int32_t node;
      size_t begin, end;
      int64_t depth;
    };
    std::vector<Range> open = {{0, 0, rows_.size(), 0}};
    while (!open.empty()) {
      const auto [node, begin, end, depth] = open.back();
      open.pop_back();
      const Split split = depth < max_depth_ ? best_split(begin, end) : Split{};
      if (split.column < 0) {
        tree_.nodes[static_cast<size_t>(node)].value = mean_of(begin, end);
        continue;
      }
      const size_t middle = part(split, begin, end);
      const auto left = static_cast<int32_t>(tree_.nodes.size());
      tree_.nodes.resize(tree_.nodes.size() + 2);
      tree_.nodes[static_cast<size_t>(node)] = {
          .column = split.column, .threshold = split.threshold, .left = left, .right = left + 1};
      open.push_back({left + 1, middle, end, depth + 1});
      open.push_back({left, begin, middle, depth + 1});
    }
    return std::move(tree_);
  }

 private:
  struct Split {
    int32_t column = -1;
    double threshold = 0;
    double gain = 0;
  };

  void draw_samples() {
    for (size_t i = 0; i < values_.size(); ++i) rows_.push_back(random_() % values_.size());
    is_left_.resize(rows_.size());
    for (const std::vector<double>& column : columns_) {
      std::vector<size_t> order(rows_.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [&](size_t sample) { return column[rows_[sample]]; });
      orders_.push_back(std::move(order));
    }
    tried_.resize(columns_.size());
    std::iota(tried_.begin(), tried_.end(), size_t{0});
  }

  double value(size_t sample) const { return values_[rows_[sample]]; }

  double mean_of(size_t begin, size_t end) const {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += value(orders_[0][i]);
    return sum / static_cast<double>(end - begin);
  }

  bool are_alike(size_t begin, size_t end) const {
    const double first = value(orders_[0][begin]);
    for (size_t i = begin; i < end; ++i) {
      if (value(orders_[0][i]) != first) return false;
    }
    return true;
  }

  /// Columns in random order, so that of equal splits each may be the first.
  Split best_split(size_t begin, size_t end) {
    Split best;
    if (are_alike(begin, end)) return best;
    const double mean = mean_of(begin, end);
    for (size_t left = tried_.size(); left > 0; --left) {
      std::swap(tried_[left - 1], tried_[random_() % left]);
      try_column(tried_[left - 1], begin, end, mean, best);
    }
    return best;
  }

  /// What a split takes off the squared error: n_l · n_r / n · (mean_l − mean_r)², here with sums of
  /// what is above the node's mean.
  void try_column(size_t c, size_t begin, size_t end, double mean, Split& best) const {
    const std::vector<double>& column = columns_[c];
    const std::vector<size_t>& order = orders_[c];
    double sum = 0;
    for (size_t i = begin; i + 1 < end; ++i) {
      sum += value(order[i]) - mean;
      const double here = column[rows_[order[i]]], next = column[rows_[order[i + 1]]];
      if (here == next) continue;
      const auto left = static_cast<double>(i + 1 - begin),
                 right = static_cast<double>(end - i - 1);
      const double gain = sum * sum * (1 / left + 1 / right);
      if (gain <= best.gain && best.column >= 0) continue;
      const double middle = here / 2 + next / 2;
      best = {.column = static_cast<int32_t>(c),
              .threshold = middle < next ? std::max(middle, here) : here,
              .gain = gain};
    }
  }

  /// Where the right part begins.
  size_t part(const Split& split, size_t begin, size_t end) {
    const std::vector<double>& column = columns_[static_cast<size_t>(split.column)];
    size_t middle = begin;
    for (size_t i = begin; i < end; ++i) {
      const size_t sample = orders_[0][i];
      is_left_[sample] = column[rows_[sample]] <= split.threshold;
      middle += is_left_[sample] ? 1 : 0;
    }
    for (std::vector<size_t>& order : orders_) {
      const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = order.begin() + static_cast<std::ptrdiff_t>(end);
      std::stable_partition(first, last, [&](size_t sample) { return is_left_[sample]; });
    }
    return middle;
  }

  std::span<const std::vector<double>> columns_;
  std::span<const double> values_;
  int64_t max_depth_;
  std::mt19937_64 random_;
  std::vector<size_t> rows_;                 // by sample
  std::vector<std::vector<size_t>> orders_;  // by column: samples
  std::vector<size_t> tried_;                // columns
  std::vector<bool> is_left_;                // by sample
  RegressionTree tree_;
};

}  // namespace

std::vector<RegressionTree> grow_forest(std::span<const std::vector<double>> columns,
                                        std::span<const double> values,
                                        const ForestOptions& options) {
  std::mt19937_64 seeds(options.seed);
  std::vector<RegressionTree> trees;
  for (int64_t i = 0; i < options.trees; ++i)
    trees.push_back(TreeGrower(columns, values, options.max_depth, seeds()).grow());
  return trees;
}

}  // namespace muster::tune
