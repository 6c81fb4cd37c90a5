#include "muster/tune/files/sweep_parameter.h"

#include <array>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

constexpr double kMostGridValues = 10000;

/// One parameter's map into a domain.
class SweepParameter {
 public:
  SweepParameter(YamlMap& map, bool grid) : map_(map), grid_(grid) {}

  Domain read() {
    const auto value = map_.value("value");
    const auto values = map_.values("values");
    const auto given = map_.text("distribution");
    const std::string distribution = given ? *given : inferred(value, values);
    const Domain domain = make(distribution, value, values);
    map_.refuse_unknown();
    return domain;
  }

 private:
  std::string inferred(const std::optional<Value>& value,
                       const std::optional<std::vector<Value>>& values) {
    if (value && !values) return "constant";
    if (values && !value)
      return map_.find("probabilities") ? "categorical_w_probabilities" : "categorical";
    const auto low = map_.value("min"), high = map_.value("max");
    if (!value && !values && low && high)
      return low->is_int() && high->is_int() ? "int_uniform" : "uniform";
    map_.refuse_all("it has value, values, or min and max", "or a distribution with its bounds");
  }

  Domain make(const std::string& distribution,
              const std::optional<Value>& value,
              const std::optional<std::vector<Value>>& values) {
    if (distribution == "constant") {
      if (!value) map_.refuse_all("a constant has a value");
      return *value;
    }
    if (distribution == "categorical" || distribution == "categorical_w_probabilities") {
      if (!values) map_.refuse_all("a categorical parameter has values");
      check_probabilities(values->size());
      return grid_ ? grid_search(*values) : choice(*values);
    }
    return numeric(distribution);
  }

  void check_probabilities(size_t count) {
    const auto shares = map_.values("probabilities");
    if (!shares) return;
    for (const Value& share : *shares) {
      if (shares->size() != count || !same_value(share, shares->front()))
        map_.refuse("probabilities",
                    "all values are as likely here",
                    "",
                    "give the likelier ones several times in `values`");
    }
  }

  Domain numeric(const std::string& name) {
    using Make = Domain (SweepParameter::*)();
    static constexpr std::array<std::pair<std::string_view, Make>, 12> kKinds = {{
        {"int_uniform", &SweepParameter::int_uniform},
        {"uniform", &SweepParameter::plain_uniform},
        {"q_uniform", &SweepParameter::q_uniform},
        {"log_uniform", &SweepParameter::log_uniform},
        {"log_uniform_values", &SweepParameter::log_uniform_values},
        {"q_log_uniform", &SweepParameter::q_log_uniform},
        {"q_log_uniform_values", &SweepParameter::q_log_uniform_values},
        {"inv_log_uniform", &SweepParameter::inv_log_uniform},
        {"inv_log_uniform_values", &SweepParameter::log_uniform_values},
        {"normal", &SweepParameter::normal},
        {"q_normal", &SweepParameter::q_normal},
        {"log_normal", &SweepParameter::log_normal},
    }};
    std::vector<std::string> known = {"constant", "categorical", "q_log_normal"};
    for (const auto& [kind, make] : kKinds) {
      if (kind == name) return checked(name, make);
      known.emplace_back(kind);
    }
    if (name == "q_log_normal") return checked(name, &SweepParameter::q_log_normal);
    map_.refuse("distribution", "it has no counterpart here", name, suggestion(name, known));
  }

  Domain checked(const std::string& name, Domain (SweepParameter::*make)()) {
    if (grid_ && name != "int_uniform" && name != "q_uniform")
      map_.refuse_all(concat("method grid cannot try all values of ", name),
                      "give values, int_uniform or q_uniform");
    try {
      return (this->*make)();
    } catch (const Error& error) {
      if (error.text().refused.find(map_.name()) != std::string::npos) throw;  // has its place
      map_.refuse_all(concat(error.text().refused, ": ", error.text().rule));
    }
  }

  double bound(std::string_view key) {
    const auto value = map_.number(key);
    if (!value) map_.refuse_all(concat("its distribution needs ", key));
    return *value;
  }

  int64_t whole_bound(std::string_view key) {
    const double value = bound(key);
    if (std::trunc(value) != value || std::abs(value) > 0x1p53)
      map_.refuse(key, "it is a whole number", shortest(value));
    return static_cast<int64_t>(value);
  }

  Value step() {
    const Value q = map_.value("q").value_or(Value(1));
    if (!q.is_number() || !(q.as_double() > 0))
      map_.refuse("q", "it is a number above 0", value_text(q));
    return q;
  }

  /// For the distance between the first and the last step.
  void check_grid(double steps) const {
    if (!(steps < kMostGridValues)) map_.refuse("max", "a grid has at most 10000 values");
  }

  /// round(X / q) * q, whole if q is.
  Domain quantised(const std::string& x) {
    const Value q = step();
    const std::string text = q.is_int() && q.as_int() == 1
                                 ? concat("round(", x, ')')
                                 : concat("round(", x, " / ", value_text(q), ") * ", value_text(q));
    return sample_from(text);
  }

  static std::string between(const Domain& domain) {
    return distribution_text(domain.distribution());
  }
  static std::string exponential(const Domain& domain) {
    return concat("2.718281828459045 ** ", distribution_text(domain.distribution()));
  }

  Domain int_uniform() {
    const int64_t low = whole_bound("min"), high = whole_bound("max");
    if (!grid_) return randint(low, high + 1);
    check_grid(static_cast<double>(high - low));
    std::vector<Value> values;
    for (int64_t value = low; value <= high; ++value) values.emplace_back(value);
    return grid_search(std::move(values));
  }

  Domain plain_uniform() { return uniform(bound("min"), bound("max")); }

  Domain q_uniform() {
    const Domain x = plain_uniform();
    if (!grid_) return quantised(between(x));
    const Value q = step();
    const double first = std::nearbyint(bound("min") / q.as_double());
    const double last = std::nearbyint(bound("max") / q.as_double());
    check_grid(last - first);
    // Beyond, k + 1 is k: there would be no end.
    if (std::abs(first) > 0x1p53 || std::abs(last) > 0x1p53)
      map_.refuse("min", "multiples of q in a grid are counted up to 2^53", shortest(bound("min")));
    std::vector<Value> values;
    for (double k = first; k <= last; ++k) {
      const double value = multiple_of(q.as_double(), k);
      if (q.is_int() && std::abs(value) > 0x1p53)
        map_.refuse("max", "whole numbers of a grid are within 2^53 of zero", shortest(value));
      if (q.is_int())
        values.emplace_back(static_cast<int64_t>(value));
      else
        values.emplace_back(value);
    }
    return grid_search(std::move(values));
  }

  Domain log_uniform() { return loguniform(std::exp(bound("min")), std::exp(bound("max"))); }
  Domain log_uniform_values() { return loguniform(bound("min"), bound("max")); }
  Domain inv_log_uniform() { return loguniform(std::exp(-bound("max")), std::exp(-bound("min"))); }
  Domain q_log_uniform() { return quantised(between(log_uniform())); }
  Domain q_log_uniform_values() { return quantised(between(log_uniform_values())); }
  Domain normal() { return randn(map_.number("mu").value_or(0), map_.number("sigma").value_or(1)); }
  Domain q_normal() { return quantised(between(normal())); }
  Domain log_normal() { return sample_from(exponential(normal())); }
  Domain q_log_normal() { return quantised(exponential(normal())); }

  YamlMap& map_;
  bool grid_;
};

}  // namespace

Domain read_sweep_domain(YamlMap& map, bool grid) { return SweepParameter(map, grid).read(); }

}  // namespace muster::tune
