// What adds up to metrics.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/train/metrics/metric.h"

namespace muster::train {

/// Sums of the loss and of a task's metrics over batches, and later over ranks, in float64. Which
/// metrics, the list says that all meters of a run share. One thread.
class Meter {
 public:
  using List = std::shared_ptr<const std::vector<Metric>>;

  Meter() : Meter(std::make_shared<const std::vector<Metric>>()) {}
  explicit Meter(List metrics);

  // What has the weight 0 is of nothing, and adds nothing, whatever number stands there.

  /// A batch's loss, a mean over `weight` samples.
  void add_loss(double mean, double weight) {
    if (weight == 0) return;
    loss_sum_ += mean * weight;
    weight_ += weight;
  }
  /// A batch's value of the metric with that number in the list, with the samples that it is of.
  void add(size_t metric, double value, double weight);
  /// What another meter of the same list has.
  void add(const Meter& other);

  /// Whether anything was added.
  bool empty() const { return weight_ == 0; }
  /// Samples (or what Task::weight says) that the loss was added for.
  double weight() const { return weight_; }
  double loss_sum() const { return loss_sum_; }
  double loss() const { return weight_ > 0 ? loss_sum_ / weight_ : 0; }
  /// The loss and each metric that was added for any batch, or is made of such, but for hidden ones;
  /// nothing for an empty meter.
  Metrics metrics() const;
  /// The number in the list of the first metric that is NaN, as it is as soon as one batch's is.
  std::optional<size_t> first_nan() const;
  const std::vector<Metric>& list() const { return *list_; }
  const List& shared_list() const { return list_; }

  // For the exchange between ranks: what is added up, and what the greatest is taken of (a least
  // value as its negative). What is no number is told by the sums, also of an extreme: who takes the
  // greatest of several passes over NaN, or not.
  static constexpr size_t kOwnSums = 2;
  std::vector<double> sums() const;    ///< loss, weight, and two per metric
  std::vector<double> maxima() const;  ///< one per metric; -infinity where there is none
  bool has_extremes() const;
  /// Replaces the sums by those of all ranks; `maxima` may be null if !has_extremes().
  void set_sums(const double* sums, const double* maxima);

  /// {"loss_sum", "weight", "metrics": {NAME: [value, weight]}}.
  Json to_json() const;
  /// Replaces the sums. Metrics that the list has not are passed over. Also reads what versions
  /// before 0.9 wrote: {"loss_sum", "correct", "count"}.
  void load(const Json& json);

 private:
  struct Sum {
    double value = 0;
    double weight = 0;
  };

  /// Of the metric with that number, which has no formula; or nothing, where nothing was added.
  std::optional<double> reduced(size_t metric) const;
  /// Of one that has.
  std::optional<double> made(const Metric& metric) const;

  List list_;
  double loss_sum_ = 0;
  double weight_ = 0;
  std::vector<Sum> sums_;  // by metric
};

}  // namespace muster::train
