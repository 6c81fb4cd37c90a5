#include "muster/tune/space/distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

using Bits = std::array<uint32_t, 4>;
__extension__ using Wide = unsigned __int128;

uint64_t high_word(const Bits& bits) { return uint64_t{bits[1]} << 32 | bits[0]; }
uint64_t low_word(const Bits& bits) { return uint64_t{bits[3]} << 32 | bits[2]; }

/// In [0, 1), all 53 bits random.
double unit(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

/// 0 … count - 1. The product with 128 random bits is biased by less than count / 2^128.
uint64_t below(uint64_t count, const Bits& bits) {
  const Wide carry = (Wide{low_word(bits)} * count) >> 64;
  return static_cast<uint64_t>((Wide{high_word(bits)} * count + carry) >> 64);
}

/// In [low, high), or in its logarithm. Rounding may reach `high`, which does not belong to it.
double between(double low, double high, bool log, double u) {
  const double from = log ? std::log(low) : low, to = log ? std::log(high) : high;
  const double at = from + u * (to - from);
  return std::clamp(log ? std::exp(at) : at, low, std::nextafter(high, low));
}

double draw(const FloatDistribution& d, const Bits& bits) {
  const double at = between(d.low, d.high, d.log, unit(high_word(bits)));
  if (d.step <= 0) return at;
  return std::clamp(multiple_of(d.step, std::nearbyint(at / d.step)), d.low, d.high);
}

/// A logarithmic one is rounded down, so that k has the mass of [k, k + 1): k counts steps, as in
/// Ray.
double draw(const IntDistribution& d, const Bits& bits) {
  const auto low = static_cast<double>(d.low), high = static_cast<double>(d.high);
  if (d.log) {
    const auto step = static_cast<double>(d.step);
    const double k = std::floor(between(low / step, high / step + 1, true, unit(high_word(bits))));
    return std::clamp(k * step, low, high);
  }
  const uint64_t count = static_cast<uint64_t>((d.high - d.low) / d.step) + 1;
  return low + static_cast<double>(below(count, bits)) * static_cast<double>(d.step);
}

double draw(const CategoricalDistribution& d, const Bits& bits) {
  return static_cast<double>(below(d.choices.size(), bits));
}

/// Source: Box and Muller 1958. 1 - u is in (0, 1], so that the logarithm is finite.
double draw(const NormalDistribution& d, const Bits& bits) {
  const double radius = std::sqrt(-2 * std::log(1 - unit(high_word(bits))));
  const double at = d.mean + d.sd * radius * std::cos(2 * std::numbers::pi * unit(low_word(bits)));
  return d.step > 0 ? multiple_of(d.step, std::nearbyint(at / d.step)) : at;
}

double rounded_in(double number) {
  if (std::isfinite(number) && std::abs(number) <= 0x1p53 && std::trunc(number) == number)
    return number;
  throw usage_error({.rule = "a whole number is needed", .value = shortest(number)});
}

bool on_step(double value, double step) {
  return step <= 0 || std::abs(value / step - std::nearbyint(value / step)) <= 1e-8;
}

/// shortest() is "1e+06" for a million, which reads oddly among whole bounds, and has only digits
/// for whole numbers beyond 64 bits, which would not be read as a double.
std::string bound(double value) {
  const bool rounded_in = std::trunc(value) == value;
  if (rounded_in && std::abs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  return rounded_in ? value_text(Value(value)) : shortest(value);
}

std::string call(std::string_view name, std::vector<std::string> arguments) {
  return concat(name, '(', join(arguments, ", "), ')');
}

struct Writer {
  std::string_view list;

  std::string operator()(const FloatDistribution& d) const {
    std::vector<std::string> arguments = {bound(d.low), bound(d.high)};
    if (d.step > 0) arguments.push_back(bound(d.step));
    return call(concat(d.step > 0 ? "q" : "", d.log ? "log" : "", "uniform"), arguments);
  }
  std::string operator()(const IntDistribution& d) const {
    if (d.step != 1)
      return call(d.log ? "qlograndint" : "qrandint",
                  {std::to_string(d.low), std::to_string(d.high), std::to_string(d.step)});
    return call(d.log ? "lograndint" : "randint",
                {std::to_string(d.low), std::to_string(d.high + 1)});
  }
  std::string operator()(const CategoricalDistribution& d) const {
    std::vector<std::string> arguments;
    for (const Value& value : d.choices) arguments.push_back(literal(value));
    return call(list, arguments);
  }
  std::string operator()(const NormalDistribution& d) const {
    std::vector<std::string> arguments = {bound(d.mean), bound(d.sd)};
    if (d.step > 0) arguments.push_back(bound(d.step));
    return call(d.step > 0 ? "qrandn" : "randn", arguments);
  }
};

}  // namespace

double multiple_of(double step, double k) {
  const double per_one = std::nearbyint(1 / step);
  if (per_one >= 1 && per_one <= 0x1p53 && 1 / per_one == step) return k / per_one;
  return k * step;
}

double draw(const Distribution& distribution, const Bits& bits) {
  return std::visit([&](const auto& d) { return draw(d, bits); }, distribution);
}

Value value_of(const Distribution& distribution, double number) {
  if (std::holds_alternative<IntDistribution>(distribution))
    return static_cast<int64_t>(rounded_in(number));
  const auto* categories = std::get_if<CategoricalDistribution>(&distribution);
  if (categories == nullptr) {
    if (std::isfinite(number)) return number;
    throw usage_error({.rule = "a finite number is needed", .value = shortest(number)});
  }
  if (rounded_in(number) < 0 || number >= static_cast<double>(categories->choices.size())) {
    throw usage_error({.rule = concat("it has ", categories->choices.size(), " choices"),
                       .value = concat("number ", bound(number))});
  }
  return categories->choices[static_cast<size_t>(number)];
}

std::optional<double> number_of(const Distribution& distribution, const Value& value) {
  if (const auto* d = std::get_if<CategoricalDistribution>(&distribution)) {
    const auto at = std::find_if(d->choices.begin(), d->choices.end(), [&](const Value& choice) {
      return same_value(choice, value);
    });
    if (at == d->choices.end()) return std::nullopt;
    return static_cast<double>(at - d->choices.begin());
  }
  if (!value.is_number() || !std::isfinite(value.as_double())) return std::nullopt;
  const double number = value.as_double();
  if (const auto* d = std::get_if<IntDistribution>(&distribution)) {
    const bool inside = number >= static_cast<double>(d->low) &&
                        number <= static_cast<double>(d->high) && std::trunc(number) == number;
    if (!inside || (static_cast<int64_t>(number) - d->low) % d->step != 0) return std::nullopt;
    return number;
  }
  if (const auto* d = std::get_if<FloatDistribution>(&distribution)) {
    // The upper end is taken too: `high` of another program's distribution is inside.
    if (number < d->low || number > d->high || !on_step(number, d->step)) return std::nullopt;
    return number;
  }
  return on_step(number, std::get<NormalDistribution>(distribution).step) ? std::optional(number)
                                                                          : std::nullopt;
}

std::optional<std::vector<double>> numbers_of(const Distribution& distribution, size_t limit) {
  const auto rising = [&](double count, auto&& number) -> std::optional<std::vector<double>> {
    if (count > static_cast<double>(limit)) return std::nullopt;
    std::vector<double> numbers;
    for (double k = 0; k < count; ++k) numbers.push_back(number(k));
    return numbers;
  };
  if (const auto* d = std::get_if<CategoricalDistribution>(&distribution))
    return rising(static_cast<double>(d->choices.size()), [](double k) { return k; });
  if (const auto* d = std::get_if<IntDistribution>(&distribution)) {
    const auto low = static_cast<double>(d->low), step = static_cast<double>(d->step);
    return rising(std::floor((static_cast<double>(d->high) - low) / step) + 1,
                  [&](double k) { return low + k * step; });
  }
  const auto* d = std::get_if<FloatDistribution>(&distribution);
  if (d == nullptr || d->step <= 0) return std::nullopt;
  const double first = std::nearbyint(d->low / d->step), last = std::nearbyint(d->high / d->step);
  return rising(last - first + 1, [&](double k) {
    return std::clamp(multiple_of(d->step, first + k), d->low, d->high);
  });
}

std::array<double, 2> ends_of(const Distribution& distribution) {
  if (const auto* d = std::get_if<FloatDistribution>(&distribution))
    return {d->low, d->step > 0 ? d->high : std::nextafter(d->high, d->low)};
  if (const auto* d = std::get_if<IntDistribution>(&distribution))
    return {static_cast<double>(d->low), static_cast<double>(d->high)};
  if (const auto* d = std::get_if<CategoricalDistribution>(&distribution))
    return {0, static_cast<double>(d->choices.size() - 1)};
  const auto& d = std::get<NormalDistribution>(distribution);
  return {d.mean - 4 * d.sd, d.mean + 4 * d.sd};
}

std::string distribution_text(const Distribution& distribution, std::string_view list) {
  return std::visit(Writer{list}, distribution);
}

std::string literal(const Value& value) {
  if (!value.is_text()) return value_text(value);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "'";
  for (const char c : value.as_text()) {
    if (c == '\'' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      out += {'\\', 'x', kHex[static_cast<unsigned char>(c) / 16], kHex[c % 16]};
    } else {
      out += c;
    }
  }
  return out + '\'';
}

bool same_value(const Value& a, const Value& b) {
  if (a.is_int() == b.is_int() || !a.is_number() || !b.is_number()) return a == b;
  // Exact: a long double holds every int64_t and every double.
  const auto wide = [](const Value& value) {
    return value.is_int() ? static_cast<long double>(value.as_int()) : value.as_double();
  };
  return wide(a) == wide(b);
}

}  // namespace muster::tune
