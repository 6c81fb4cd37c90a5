// Metrics: named numbers, and how those of many batches and ranks become one.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::train {

/// How a metric of many batches, on all ranks, is made from that of each.
enum class Reduce {
  kMean,  ///< sums over samples, divided by the samples: accuracy from counts of right answers
  kSum,
  kMin,
  kMax
};

/// "mean", "sum", "min" or "max".
std::string_view name_of(Reduce reduce);

struct Metric {
  std::string name;  ///< as in files and --monitor validate_NAME: letters, digits and _
  Reduce reduce = Reduce::kMean;
  bool wants_less = false;  ///< what a better epoch has; of a loss true
};

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
