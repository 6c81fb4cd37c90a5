#include "muster/train/metrics/metric.h"

#include "muster/base/error.h"
#include "muster/base/metric_text.h"
#include "muster/base/text.h"

namespace muster::train {

std::string_view name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::kMean:
      return "mean";
    case Reduce::kSum:
      return "sum";
    case Reduce::kMin:
      return "min";
    case Reduce::kMax:
      return "max";
  }
  return "?";
}

std::vector<Metric> shown_metrics(const std::vector<Metric>& metrics) {
  std::vector<Metric> out;
  for (const Metric& metric : metrics)
    if (!metric.is_hidden) out.push_back(metric);
  return out;
}

const double* Metrics::find(std::string_view name) const {
  for (const auto& [own, value] : items_) {
    if (own == name) return &value;
  }
  return nullptr;
}

double Metrics::operator[](std::string_view name) const {
  if (const double* found = find(name)) return *found;
  std::vector<std::string> known;
  for (const auto& [own, value] : items_) known.push_back(own);
  throw usage_error({.refused = concat("no metric \"", name, '"'),
                     .rule = known.empty() ? "there are none" : "there are " + join(known, ", "),
                     .hint = suggestion(name, known)});
}

std::string text_of(const Metrics& metrics) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : metrics) parts.push_back(concat(name, ' ', metric_text(value)));
  return join(parts, ", ");
}

}  // namespace muster::train
