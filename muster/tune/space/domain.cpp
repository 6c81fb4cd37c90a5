#include "muster/tune/space/domain.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/expression.h"

namespace muster::tune {
namespace {

// Points hold numbers as doubles, which are exact up to here.
constexpr int64_t kLargest = int64_t{1} << 53;

[[noreturn]] void refuse_domain(const Distribution& given,
                                std::string rule,
                                std::string hint = "") {
  throw usage_error(
      {.refused = distribution_text(given), .rule = std::move(rule), .hint = std::move(hint)});
}

/// What all distributions over [low, high] have in common. With q the ends belong to it.
void check(const FloatDistribution& d) {
  if (!std::isfinite(d.low) || !std::isfinite(d.high) || !std::isfinite(d.high - d.low))
    refuse_domain(d, "bounds, and the width between them, are finite numbers");
  if (d.log && d.low <= 0)
    refuse_domain(d,
                  "a logarithm is taken of numbers above 0",
                  d.low < 0 ? "give the bounds themselves, not their logarithms"
                            : "begin at the smallest number that is worth a trial");
  if (d.low > d.high || (d.step == 0 && d.low == d.high))
    refuse_domain(d,
                  "the lower bound comes first and is below the upper one",
                  d.low == d.high ? "a constant is written as itself" : "");
}

bool is_multiple(double bound, double q) {
  const double k = bound / q;
  // Python's math.isclose, with which Ray asks the same.
  return std::abs(k - std::nearbyint(k)) <=
         1e-9 * std::max(std::abs(k), std::abs(std::nearbyint(k)));
}

/// No distribution has such a step, so the text is as it was written.
[[noreturn]] void refuse_step(const FloatDistribution& d, double q) {
  throw usage_error({.refused = concat(d.log ? "qloguniform(" : "quniform(",
                                       shortest(d.low),
                                       ", ",
                                       shortest(d.high),
                                       ", ",
                                       shortest(q),
                                       ')'),
                     .rule = "q is above 0, and finite"});
}

void check_step(const FloatDistribution& d, double q) {
  for (const double bound : {d.low, d.high}) {
    if (std::abs(bound / q) > 0x1p53 || !is_multiple(bound, q))
      refuse_domain(d, concat("both bounds are multiples of q; ", shortest(bound), " is none"));
  }
}

void check(const IntDistribution& d) {
  if (d.low < -kLargest || d.high > kLargest - 1)
    refuse_domain(d, "whole numbers of a space are within 2^53 of zero");
  if (d.log && d.low <= 0) refuse_domain(d, "a logarithm is taken of numbers above 0");
}

CategoricalDistribution categories(std::vector<Value> values, std::string_view name) {
  const CategoricalDistribution d{std::move(values)};
  const auto refuse_list = [&](std::string rule) {
    throw usage_error({.refused = distribution_text(d, name), .rule = std::move(rule)});
  };
  if (d.choices.empty()) refuse_list("at least one value is needed");
  for (const Value& value : d.choices) {
    if (value.is_none()) refuse_list("a choice is a value, not nothing");
    if (value.is_double() && !std::isfinite(value.as_double()))
      refuse_list("numbers of a space are finite");
  }
  return d;
}

int64_t floor_multiple(int64_t value, int64_t q) {
  const int64_t rest = value % q;
  return value - (rest < 0 ? rest + q : rest);
}

/// What stands between the brackets, if `text` is sample_from(…).
std::optional<std::string_view> inside_sample_from(std::string_view text) {
  constexpr std::string_view kName = "sample_from";
  if (!text.starts_with(kName)) return std::nullopt;
  const std::string_view rest = trim(text.substr(kName.size()));
  if (!rest.starts_with('(') || !rest.ends_with(')')) return std::nullopt;
  return rest.substr(1, rest.size() - 2);
}

bool is_quoted(std::string_view text) { return text.starts_with('\'') || text.starts_with('"'); }
bool has_bracket(std::string_view text) { return text.find_first_of("()") != text.npos; }

}  // namespace

Domain::Domain(Value constant) : constant_(std::move(constant)) {}

Domain make_domain(Domain::Kind kind, Distribution distribution) {
  Domain domain;
  domain.kind_ = kind;
  domain.distribution_ = std::move(distribution);
  return domain;
}

Domain Domain::parse(std::string_view text, std::string_view where) {
  const std::string_view trimmed = trim(text);
  if (is_quoted(trimmed)) return Value(parse_quoted(trimmed, where));
  if (!has_bracket(trimmed)) return Value(text);
  if (const auto expression = inside_sample_from(trimmed)) {
    parse_expression(*expression, where);
    return sample_from(*expression);
  }
  Draw draw = parse_draw(trimmed, where);
  return make_domain(draw.function == "grid_search" ? Kind::kGrid : Kind::kDistribution,
                     std::move(draw.distribution));
}

std::string Domain::text() const {
  switch (kind_) {
    case Kind::kConstant: {
      if (!constant_.is_text()) return value_text(constant_);
      const std::string& plain = constant_.as_text();
      return has_bracket(plain) || is_quoted(trim(plain)) ? literal(constant_) : plain;
    }
    case Kind::kDistribution:
      return distribution_text(distribution_);
    case Kind::kGrid:
      return distribution_text(distribution_, "grid_search");
    case Kind::kExpression:
      return concat("sample_from(", expression_, ')');
    case Kind::kFunction:
      return "sample_from(<function>)";
  }
  return "";
}

Domain choice(std::vector<Value> values) {
  return make_domain(Domain::Kind::kDistribution, categories(std::move(values), "choice"));
}

Domain grid_search(std::vector<Value> values) {
  return make_domain(Domain::Kind::kGrid, categories(std::move(values), "grid_search"));
}

namespace {

Domain float_domain(const FloatDistribution& unquantised, std::optional<double> q = std::nullopt) {
  FloatDistribution d = unquantised;
  if (q) {
    if (!std::isfinite(*q) || *q <= 0) refuse_step(d, *q);
    d.step = *q;
    check(d);
    check_step(d, *q);
  } else {
    check(d);
  }
  return make_domain(Domain::Kind::kDistribution, d);
}

/// [low, high)
Domain int_domain(int64_t low, int64_t high, bool log) {
  const IntDistribution d{.low = low, .high = high - (high > INT64_MIN ? 1 : 0), .log = log};
  check(d);
  if (low >= high) refuse_domain(d, "the lower bound comes first and is below the upper one");
  return make_domain(Domain::Kind::kDistribution, d);
}

Domain normal(const NormalDistribution& d) {
  if (!std::isfinite(d.mean) || !std::isfinite(d.sd) || d.sd <= 0)
    refuse_domain(d, "the mean is a finite number and the standard deviation one above 0");
  return make_domain(Domain::Kind::kDistribution, d);
}

}  // namespace

Domain uniform(double low, double high) { return float_domain({.low = low, .high = high}); }

Domain loguniform(double low, double high) {
  return float_domain({.low = low, .high = high, .log = true});
}

Domain quniform(double low, double high, double q) {
  return float_domain({.low = low, .high = high}, q);
}

Domain qloguniform(double low, double high, double q) {
  return float_domain({.low = low, .high = high, .log = true}, q);
}

Domain randint(int64_t low, int64_t high) { return int_domain(low, high, false); }

Domain lograndint(int64_t low, int64_t high) { return int_domain(low, high, true); }

namespace {

/// Multiples of q in [low, high]; with q = 1 [low, high), as Ray has it.
Domain quantised_ints(int64_t low, int64_t high, bool log, int64_t q) {
  if (q == 1) return int_domain(low, high, log);
  const IntDistribution given{.low = low, .high = high, .log = log, .step = q};
  check(given);
  if (q < 1) refuse_domain(given, "q is at least 1");
  const IntDistribution d{
      .low = -floor_multiple(-low, q), .high = floor_multiple(high, q), .log = log, .step = q};
  if (d.low > d.high) refuse_domain(given, "there is a multiple of q between the bounds");
  return make_domain(Domain::Kind::kDistribution, d);
}

}  // namespace

Domain qrandint(int64_t low, int64_t high, int64_t q) {
  return quantised_ints(low, high, false, q);
}

Domain qlograndint(int64_t low, int64_t high, int64_t q) {
  return quantised_ints(low, high, true, q);
}

Domain randn(double mean, double sd) { return normal({.mean = mean, .sd = sd}); }

Domain qrandn(double mean, double sd, double q) {
  const NormalDistribution d{.mean = mean, .sd = sd, .step = q};
  if (!std::isfinite(q) || q <= 0) refuse_domain(d, "q is above 0");
  return normal(d);
}

Domain sample_from(std::string_view expression) {
  const std::string_view text = trim(expression);
  parse_expression(text, concat("sample_from(", text, ')'));
  Domain domain;
  domain.kind_ = Domain::Kind::kExpression;
  domain.expression_ = text;
  return domain;
}

Domain sample_from(SampleFunction function) {
  if (!function)
    throw usage_error({.refused = "sample_from", .rule = "a function to call is needed"});
  Domain domain;
  domain.kind_ = Domain::Kind::kFunction;
  domain.function_ = std::move(function);
  return domain;
}

}  // namespace muster::tune
