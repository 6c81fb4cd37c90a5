#include "muster/tune/core/stop_rules.h"

#include <array>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {
namespace {

using Comparison = StopCriterion::Comparison;

constexpr std::array<std::pair<std::string_view, Comparison>, 4> kComparisons = {
    {{"<=", Comparison::kLessEqual},  // before "<", which is its beginning
     {">=", Comparison::kGreaterEqual},
     {"<", Comparison::kLess},
     {">", Comparison::kGreater}}};

constexpr std::string_view kStep = "step", kTime = "time_total_s";  // not of the report

std::string_view name_of(Comparison comparison) {
  for (const auto& [name, value] : kComparisons) {
    if (value == comparison) return name;
  }
  return "?";
}

bool holds(double value, Comparison comparison, double bound) {
  switch (comparison) {
    case Comparison::kLess:
      return value < bound;
    case Comparison::kLessEqual:
      return value <= bound;
    case Comparison::kGreater:
      return value > bound;
    case Comparison::kGreaterEqual:
      return value >= bound;
  }
  return false;
}

[[noreturn]] void refuse(std::string_view where,
                         std::string_view text,
                         std::string_view rule,
                         std::string hint) {
  throw usage_error({.refused = concat(where, ": stop criterion"),
                     .rule = std::string(rule),
                     .value = concat('"', text, '"'),
                     .hint = std::move(hint)});
}

/// For "loss = 0.1" and Ray's "loss: 0.1", which stops above 0.1 there.
std::string both_ways(std::string_view text) {
  const size_t at = text.find_first_of("=:");
  const size_t behind = text.find_first_not_of("=: \t", at);
  const std::string_view name = trim(text.substr(0, at));
  if (at == std::string_view::npos || behind == std::string_view::npos || name.empty())
    return "for example \"loss <= 0.1\"";
  const std::string_view bound = trim(text.substr(behind));
  return concat('"', name, " <= ", bound, "\" or \"", name, " >= ", bound, '"');
}

}  // namespace

StopCriterion parse_stop_criterion(std::string_view text, std::string_view where) {
  const size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos || text.substr(0, at).find('=') != std::string_view::npos)
    refuse(where, text, "it compares a metric by <, <=, > or >=", both_ways(text));
  StopCriterion criterion;
  std::string_view rest = text.substr(at);
  for (const auto& [name, comparison] : kComparisons) {
    if (!rest.starts_with(name)) continue;
    criterion.comparison = comparison;
    rest = trim(rest.substr(name.size()));
    break;
  }
  criterion.metric = trim(text.substr(0, at));
  if (criterion.metric.empty() || to_double(criterion.metric))
    refuse(where, text, "the metric comes first", "for example \"loss <= 0.1\"");
  const auto bound = to_double(rest);
  if (!bound || !std::isfinite(*bound))
    refuse(where, text, "a finite number follows the comparison", "for example \"loss <= 0.1\"");
  criterion.bound = *bound;
  return criterion;
}

std::string criterion_text(const StopCriterion& criterion) {
  return concat(
      criterion.metric, ' ', name_of(criterion.comparison), ' ', shortest(criterion.bound));
}

StopRules::StopRules(const StudySpec& spec)
    : criteria_(spec.stop), plateau_(spec.plateau), metric_(spec.metric), mode_(spec.mode) {
  if (plateau_.patience >= 0 && plateau_.min_delta >= 0 && std::isfinite(plateau_.min_delta))
    return;
  throw usage_error(
      {.refused = "plateau",
       .rule = "patience and min_delta are not negative",
       .value =
           concat("patience=", plateau_.patience, ", min_delta=", shortest(plateau_.min_delta))});
}

std::vector<std::string> StopRules::metrics() const {
  std::vector<std::string> names;
  for (const StopCriterion& criterion : criteria_) {
    if (criterion.metric != kStep && criterion.metric != kTime) names.push_back(criterion.metric);
  }
  return names;
}

std::optional<Decision> StopRules::on_report(int64_t trial,
                                             int64_t t,
                                             const Metrics& metrics,
                                             double time_total_s) {
  auto waited_out = plateau_.patience > 0 ? plateau(trial, t, metrics) : std::nullopt;
  for (const StopCriterion& criterion : criteria_) {
    const auto step = static_cast<double>(t);
    const double* value = criterion.metric == kStep   ? &step
                          : criterion.metric == kTime ? &time_total_s
                                                      : find_metric(metrics, criterion.metric);
    if (value == nullptr || !holds(*value, criterion.comparison, criterion.bound)) continue;
    return Decision{Action::kStop,
                    concat(criterion.metric,
                           ' ',
                           shortest(*value),
                           ' ',
                           name_of(criterion.comparison),
                           ' ',
                           shortest(criterion.bound)),
                    true};
  }
  return waited_out;
}

/// Better is what beats the best so far by more than min_delta, as in Keras; NaN never does.
std::optional<Decision> StopRules::plateau(int64_t trial, int64_t t, const Metrics& metrics) {
  const double* metric = find_metric(metrics, metric_);
  if (metric == nullptr) return std::nullopt;
  Progress& progress = progress_[trial];
  const double score = score_of(*metric, mode_);
  if (progress.any ? score > progress.best + plateau_.min_delta : !std::isnan(score)) {
    progress = {.best = score, .waited = 0, .any = true};
    return std::nullopt;
  }
  ++progress.waited;
  if (progress.waited < plateau_.patience || t < plateau_.grace_period) return std::nullopt;
  const std::string best =
      progress.any ? "no better than " + metric_text(progress.best, mode_) : "no " + metric_;
  return Decision{
      Action::kStop,
      concat(best, " in ", progress.waited, progress.waited == 1 ? " report" : " reports"),
      true};
}

void StopRules::on_end(int64_t trial) { progress_.erase(trial); }

std::optional<StopRules::Progress> StopRules::progress(int64_t trial) const {
  const auto found = progress_.find(trial);
  return found == progress_.end() ? std::nullopt : std::optional(found->second);
}

void StopRules::go_on_from(int64_t trial, const Progress& progress) {
  progress_.insert_or_assign(trial, progress);
}

}  // namespace muster::tune
