#include "muster/tune/search/kde/budgets.h"

#include <algorithm>
#include <limits>

namespace muster::tune {

std::optional<KdeSplit> kde_split(size_t points, const KdeSplitRule& rule) {
  const auto n = static_cast<int64_t>(points), columns = static_cast<int64_t>(rule.dimensions);
  const int64_t least = std::max(rule.least_points, columns + 1);
  const int64_t good = std::min(n, std::max(least, rule.good_percent * n / 100));
  const int64_t bad = std::min(n - good, std::max(least, (100 - rule.good_percent) * n / 100));
  if (n < least || good <= columns || bad <= columns) return std::nullopt;
  return KdeSplit{static_cast<size_t>(good), static_cast<size_t>(bad)};
}

void Budgets::add(int64_t budget, size_t row, double loss) {
  if (modelled_ && budget < *modelled_) return;
  results_[budget].push_back({row, loss, next_order_++});
  choose(budget);
}

void Budgets::add_failed(int64_t reached, size_t row) {
  failed_.push_back({reached, {row, std::numeric_limits<double>::infinity(), next_order_++}});
  const auto next = results_.upper_bound(reached);
  if (next != results_.end()) choose(next->first);
}

/// Models the budget if it is larger than the present one and has enough results.
void Budgets::choose(int64_t budget) {
  if (modelled_ && budget <= *modelled_) return;
  const auto found = results_.find(budget);
  const int64_t before =
      found == results_.begin() ? std::numeric_limits<int64_t>::min() : std::prev(found)->first;
  size_t points = found->second.size();
  if (!kde_split(points + failed_.size(), rule_)) return;
  for (const Failed& failed : failed_)
    points += failed.reached >= before && failed.reached < budget;
  if (!kde_split(points, rule_)) return;
  modelled_ = budget;
  results_.erase(results_.begin(), found);
}

std::vector<Budgets::Ranked> Budgets::ranked() const {
  if (!modelled_) return {};
  std::vector<Entry> entries = results_.at(*modelled_);
  for (const Failed& failed : failed_) {
    if (failed.reached < *modelled_) entries.push_back(failed.entry);
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.loss != b.loss ? a.loss < b.loss : a.order < b.order;
  });
  std::vector<Ranked> out;
  for (const Entry& entry : entries) out.push_back({entry.row, entry.loss});
  return out;
}

size_t Budgets::most_results() const {
  size_t most = 0;
  for (const auto& [budget, results] : results_) most = std::max(most, results.size());
  return most;
}

}  // namespace muster::tune
