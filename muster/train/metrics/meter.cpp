#include "muster/train/metrics/meter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/what_of.h"

namespace muster::train {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_extreme(const Metric& metric) {
  return metric.reduce == Reduce::kMin || metric.reduce == Reduce::kMax;
}

/// NaN where one of them is, as at::minimum and at::maximum have it.
double extreme_of(Reduce reduce, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return reduce == Reduce::kMin ? std::min(a, b) : std::max(a, b);
}

}  // namespace

Meter::Meter(List metrics) : list_(std::move(metrics)), sums_(list_->size()) {}

void Meter::add(size_t metric, double value, double weight) {
  Sum& sum = sums_.at(metric);
  if (weight == 0) return;
  if (!is_extreme((*list_)[metric])) {
    sum.value += value;
  } else {
    sum.value = sum.weight == 0 ? value : extreme_of((*list_)[metric].reduce, sum.value, value);
  }
  sum.weight += weight;
}

void Meter::add(const Meter& other) {
  loss_sum_ += other.loss_sum_;
  weight_ += other.weight_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (other.sums_[i].weight > 0) add(i, other.sums_[i].value, other.sums_[i].weight);
  }
}

Metrics Meter::metrics() const {
  Metrics out;
  if (empty()) return out;
  out.add("loss", loss());
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Metric& metric = (*list_)[i];
    if (metric.is_hidden) continue;
    const std::optional<double> value = metric.formula != nullptr ? made(metric) : reduced(i);
    if (value) out.add(metric.name, *value);
  }
  return out;
}

std::optional<double> Meter::reduced(size_t metric) const {
  const Sum& sum = sums_[metric];
  if (sum.weight == 0) return std::nullopt;
  return (*list_)[metric].reduce == Reduce::kMean ? sum.value / sum.weight : sum.value;
}

std::optional<double> Meter::made(const Metric& metric) const {
  std::vector<double> values;
  for (const std::string& name : metric.of) {
    size_t at = 0;
    while (at < list_->size() && (*list_)[at].name != name) ++at;
    const std::optional<double> value = at < list_->size() ? reduced(at) : std::nullopt;
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  try {
    return metric.formula(values);
  } catch (...) {
    tensor::throw_behind(concat("formula of metric ", metric.name));
  }
}

std::optional<size_t> Meter::first_nan() const {
  for (size_t i = 0; i < sums_.size(); ++i)
    if (std::isnan(sums_[i].value)) return i;
  return std::nullopt;
}

std::vector<double> Meter::sums() const {
  std::vector<double> out{loss_sum_, weight_};
  for (size_t i = 0; i < sums_.size(); ++i) {
    const double value = sums_[i].value;
    out.push_back(is_extreme((*list_)[i]) && !std::isnan(value) ? 0 : value);
    out.push_back(sums_[i].weight);
  }
  return out;
}

std::vector<double> Meter::maxima() const {
  std::vector<double> out;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const bool falls = (*list_)[i].reduce == Reduce::kMin;
    const bool has = is_extreme((*list_)[i]) && sums_[i].weight > 0 && !std::isnan(sums_[i].value);
    out.push_back(!has ? kNone : falls ? -sums_[i].value : sums_[i].value);
  }
  return out;
}

bool Meter::has_extremes() const { return std::any_of(list_->begin(), list_->end(), is_extreme); }

void Meter::set_sums(const double* sums, const double* maxima) {
  loss_sum_ = sums[0];
  weight_ = sums[1];
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Metric& metric = (*list_)[i];
    const double sum = sums[kOwnSums + 2 * i];
    sums_[i].value = !is_extreme(metric) || std::isnan(sum) ? sum
                     : metric.reduce == Reduce::kMin        ? -maxima[i]
                                                            : maxima[i];
    sums_[i].weight = sums[kOwnSums + 2 * i + 1];
  }
}

Json Meter::to_json() const {
  Json metrics = Json::object();
  for (size_t i = 0; i < sums_.size(); ++i)
    metrics[(*list_)[i].name] = {sums_[i].value, sums_[i].weight};
  return {{"loss_sum", loss_sum_}, {"weight", weight_}, {"metrics", std::move(metrics)}};
}

void Meter::load(const Json& json) {
  *this = Meter(list_);
  loss_sum_ = json.at("loss_sum").get<double>();
  const bool is_old = json.contains("count");
  weight_ = json.at(is_old ? "count" : "weight").get<double>();
  for (size_t i = 0; i < sums_.size(); ++i) {
    const std::string& name = (*list_)[i].name;
    if (is_old) {
      if (name == "accuracy") sums_[i] = {json.at("correct").get<double>(), weight_};
      continue;
    }
    const Json& saved = json.at("metrics");
    const auto found = saved.find(name);
    if (found != saved.end()) sums_[i] = {found->at(0).get<double>(), found->at(1).get<double>()};
  }
}

}  // namespace muster::train
