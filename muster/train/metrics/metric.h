// Metrics: named numbers, and how those of many batches and ranks become one.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::train {

// Note [How metrics are reduced]
// What a step reports is a sum over its batch, and the samples that it is of. Both are added up over
// batches and then over ranks (the extremes: the least or the greatest is taken), in float64, and only
// then divided: so a mean is that of all samples, however unequal batches and shares are. A mean of
// means, or a root of a mean, is not to be had from numbers that are means already. What is no mean, sum
// or extreme of samples has a formula: it is made at the very end, of other metrics that are. The
// coefficient of determination, for one, of the means of the squared errors, of the targets and of their
// squares.

/// How a metric of many batches, on all ranks, is made from that of each.
enum class Reduce {
  kMean,  ///< sums over samples, divided by the samples: accuracy from counts of right answers
  kSum,
  kMin,
  kMax
};

/// "mean", "sum", "min" or "max".
std::string_view name_of(Reduce reduce);

/// Of the values of Metric::of, in that order.
using MetricFormula = double (*)(std::span<const double> values);

struct Metric {
  std::string name;  ///< as in files and --monitor validate_NAME: letters, digits and _
  Reduce reduce = Reduce::kMean;
  bool wants_less = false;  ///< what a better epoch has; of a loss true
  /// See Note [How metrics are reduced]: no step reports this one, it is made of these others, which
  /// have no formula themselves. It is left out where one of them is.
  std::vector<std::string> of = {};
  MetricFormula formula = nullptr;
  /// Here for formulas alone: in no file and no message, and no epoch is judged by it.
  bool is_hidden = false;
};

/// Those that are not hidden.
std::vector<Metric> shown_metrics(const std::vector<Metric>& metrics);

/// Numbers by name, in the order shown: the loss first.
class Metrics {
 public:
  using Item = std::pair<std::string, double>;

  Metrics() = default;
  Metrics(std::initializer_list<Item> items) : items_(items) {}

  void add(std::string name, double value) { items_.emplace_back(std::move(name), value); }

  /// Throws a usage error that names what there is.
  double operator[](std::string_view name) const;
  /// The value of that name, or null.
  const double* find(std::string_view name) const;

  const std::vector<Item>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  friend bool operator==(const Metrics&, const Metrics&) = default;

 private:
  std::vector<Item> items_;
};

/// "loss 2.2103, accuracy 0.2045": with four digits behind the point.
std::string text_of(const Metrics& metrics);

}  // namespace muster::train
