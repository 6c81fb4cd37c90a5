#include "muster/tune/plot/value_axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/domain.h"

namespace muster::tune {
namespace {

constexpr double kRoom = 0.04;          // at each end, of the whole
constexpr double kExpressionSpan = 30;  // an expression's values with larger steps upwards
constexpr double kForeignSpan = 100;    // Optuna's, of which no distribution is known here
constexpr double kMetricSpan = 100;
constexpr size_t kDeclaredCategories = 40;  // so many are shown although no trial had them
constexpr double kHugest = std::numeric_limits<double>::max();
constexpr double kLongestWhole = 1e9;  // that can be read off digit by digit
constexpr size_t kFewNumbers = 8;      // so many whole ones are the ticks themselves

std::optional<Domain> domain_of(const std::string& text) {
  try {
    if (text.empty()) return std::nullopt;
    return Domain::parse(text, "a parameter");
  } catch (const Error&) {  // of a newer Muster
    return std::nullopt;
  }
}

bool is_usable(const Value& value) { return value.is_number() && std::isfinite(value.as_double()); }

const CategoricalDistribution* categories_of(const std::optional<Domain>& domain) {
  if (!domain ||
      (domain->kind() != Domain::Kind::kDistribution && domain->kind() != Domain::Kind::kGrid))
    return nullptr;
  return std::get_if<CategoricalDistribution>(&domain->distribution());
}

/// The axis is to be logarithmic, for positive numbers.
bool wants_log(const std::optional<Domain>& domain, double lo, double hi) {
  if (!domain) return hi / lo >= kForeignSpan;
  switch (domain->kind()) {
    case Domain::Kind::kExpression:
    case Domain::Kind::kFunction:
      return hi / lo >= kExpressionSpan;
    case Domain::Kind::kDistribution:
    case Domain::Kind::kGrid:
      break;
    default:
      return false;
  }
  if (const auto* real = std::get_if<FloatDistribution>(&domain->distribution())) return real->log;
  if (const auto* whole = std::get_if<IntDistribution>(&domain->distribution())) return whole->log;
  return false;
}

/// mantissa · 10^exponent: dividing keeps 0.2 at the double nearest to 0.2.
double decimal(double mantissa, int exponent) {
  return exponent < 0 ? mantissa / std::pow(10.0, -exponent) : mantissa * std::pow(10.0, exponent);
}

/// 1, 2 and 5 times powers of ten; powers alone, or every n-th, where these are too many; where they
/// are too few, as on a linear axis.
std::vector<double> log_ticks(double lo, double hi, int most) {
  constexpr std::array<double, 3> kMantissas = {1, 2, 5};
  const int first = static_cast<int>(std::floor(std::log10(lo)));
  const int last = static_cast<int>(std::ceil(std::log10(hi)));
  std::vector<double> all, powers;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double mantissa : kMantissas) {
      const double tick = decimal(mantissa, exponent);
      if (tick < lo || tick > hi) continue;
      all.push_back(tick);
      if (mantissa == 1) powers.push_back(tick);
    }
  }
  if (all.size() < 2) return track::nice_ticks(lo, hi, most);
  if (all.size() <= static_cast<size_t>(most)) return all;
  const size_t stride = (powers.size() - 1) / static_cast<size_t>(most) + 1;
  std::vector<double> out;
  for (size_t i = 0; i < powers.size(); i += stride) out.push_back(powers[i]);
  return out;
}

std::string log_label(double tick) {
  const double size = std::abs(tick);
  if (size >= 1e-3 && size < 1e4) return shortest(tick);
  const int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-9));
  const double mantissa = std::round(tick / std::pow(10.0, exponent) * 1e6) / 1e6;
  return concat(shortest(mantissa), 'e', exponent);
}

}  // namespace

ValueAxis::ValueAxis(std::string name,
                     const std::string& domain,
                     std::span<const Value> values,
                     bool log)
    : name_(std::move(name)) {
  const std::optional<Domain> declared = domain_of(domain);
  std::vector<double> numbers;
  bool is_numeric = categories_of(declared) == nullptr;
  for (const Value& value : values) {
    if (value.is_none()) continue;
    if (!value.is_number()) is_numeric = false;
    if (is_usable(value)) numbers.push_back(value.as_double());
  }
  if (!is_numeric) {
    set_categories(domain, values);
    return;
  }
  const auto ends = std::ranges::minmax_element(numbers);
  const bool is_positive = !numbers.empty() && *ends.min > 0;
  set_numbers(numbers, is_positive && (log || wants_log(declared, *ends.min, *ends.max)));
}

ValueAxis::ValueAxis(std::string name, std::span<const double> values) : name_(std::move(name)) {
  const auto ends = std::ranges::minmax_element(values);
  const bool wide = !values.empty() && *ends.min > 1e-290 && *ends.max / kMetricSpan > *ends.min;
  set_numbers(values, wide);
}

void ValueAxis::set_numbers(std::span<const double> numbers, bool log) {
  if (numbers.empty()) return;
  std::set<double> distinct;
  for (const double number : numbers) {
    if (distinct.size() <= kFewNumbers) distinct.insert(number);
    whole_ = whole_ && number == std::floor(number);
  }
  distinct_ = distinct.size();
  const auto ends = std::ranges::minmax_element(numbers);
  const double lo = *ends.min, hi = *ends.max;
  if (log) {
    const double room = lo < hi ? std::pow(std::min(hi / lo, kHugest), kRoom) : 2;
    scale_ = {.lo = std::max(lo / room, std::numeric_limits<double>::denorm_min()),
              .hi = std::min(hi * room, kHugest),
              .log = true};
    keep_few(distinct);
    return;
  }
  const double size = std::max(std::abs(lo), std::abs(hi));
  const bool same = hi - lo <= 1e-9 * size;
  const double width = std::min(hi - lo, kHugest);
  const double room = !same ? kRoom * width : size > 1e-290 ? size / 2 : 1;
  scale_ = {.lo = std::max(lo - room, -kHugest), .hi = std::min(hi + room, kHugest)};
  keep_few(distinct);
}

void ValueAxis::keep_few(const std::set<double>& distinct) {
  if (!whole_ || distinct.size() < 2 || distinct.size() > kFewNumbers) return;
  const std::vector<double> numbers(distinct.begin(), distinct.end());
  if (numbers.front() < -kLongestWhole || numbers.back() > kLongestWhole) return;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const double gap = at(numbers[i]) - at(numbers[i - 1]);
    if (gap * 2 * static_cast<double>(numbers.size()) < 1) return;
  }
  few_ = numbers;
}

void ValueAxis::set_categories(const std::string& domain, std::span<const Value> values) {
  std::set<std::string, std::less<>> seen;
  std::vector<std::string> order;
  const std::optional<Domain> declared = domain_of(domain);
  if (const auto* listed = categories_of(declared)) {
    for (const Value& choice : listed->choices) order.push_back(value_text(choice));
  }
  const size_t listed = order.size();
  for (const Value& value : values) {
    if (!value.is_none() && seen.insert(value_text(value)).second)
      order.push_back(value_text(value));
  }
  distinct_ = seen.size();
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < listed && listed > kDeclaredCategories && !seen.contains(order[i])) continue;
    if (slots_.emplace(order[i], categories_.size()).second) categories_.push_back(order[i]);
  }
  if (categories_.empty()) categories_.emplace_back();  // no trial has it, and it is of no numbers
}

std::optional<double> ValueAxis::place(const Value& value) const {
  if (value.is_none()) return std::nullopt;
  if (is_category()) {
    const auto slot = slots_.find(value_text(value));
    if (slot == slots_.end()) return std::nullopt;
    return (static_cast<double>(slot->second) + 0.5) / static_cast<double>(categories_.size());
  }
  if (!is_usable(value)) return std::nullopt;
  return at(value.as_double());
}

double ValueAxis::at(double number) const { return std::clamp(scale_.place(number), 0.0, 1.0); }

double ValueAxis::slot() const {
  return is_category() ? 1 / static_cast<double>(categories_.size()) : 0;
}

std::vector<AxisTick> ValueAxis::ticks(int most) const {
  std::vector<AxisTick> out;
  for (size_t i = 0; i < categories_.size(); ++i)
    out.push_back({(static_cast<double>(i) + 0.5) * slot(), categories_[i]});
  for (const double number : few_) out.push_back({at(number), shortest(number)});
  if (is_category() || !few_.empty()) return out;
  std::vector<double> ticks = scale_.log ? log_ticks(scale_.lo, scale_.hi, most)
                                         : track::nice_ticks(scale_.lo, scale_.hi, most);
  if (whole_) std::erase_if(ticks, [](double tick) { return tick != std::floor(tick); });
  const auto labels = track::tick_labels(ticks);
  for (size_t i = 0; i < ticks.size(); ++i)
    out.push_back({at(ticks[i]), scale_.log ? log_label(ticks[i]) : labels[i]});
  return out;
}

}  // namespace muster::tune
