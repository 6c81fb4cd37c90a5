// What one parameter may be. Ray Tune's names and meanings (ray 2.60, tune/search/sample.py).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/tune/space/value.h"

namespace muster::tune {

// ---- Distributions: what a dimension is drawn from; what searchers and Optuna's tables know. ----

/// Numbers in [low, high). With `step` > 0: a number of [low, high] rounded to a multiple of step,
/// both ends included, so that the ends have half the mass (Ray's quniform). low and high are
/// multiples of step.
struct FloatDistribution {
  double low = 0, high = 1;
  bool log = false;
  double step = 0;
  friend bool operator==(const FloatDistribution&, const FloatDistribution&) = default;
};

/// Whole numbers low, low + step, … <= high: both ends included, as Optuna counts and Ray does not.
/// Each is as likely; with `log`, k is as likely as a number of [k, k + 1) uniform in the logarithm
/// (Ray's lograndint), counted in steps (qlograndint). All are within 2^53 of zero, where doubles
/// are exact.
struct IntDistribution {
  int64_t low = 0, high = 0;
  bool log = false;
  int64_t step = 1;
  friend bool operator==(const IntDistribution&, const IntDistribution&) = default;
};

/// One of `choices`, each as likely; a point holds its index.
struct CategoricalDistribution {
  std::vector<Value> choices;
  friend bool operator==(const CategoricalDistribution&, const CategoricalDistribution&) = default;
};

/// Unbounded; with `step` > 0 rounded to a multiple of it.
struct NormalDistribution {
  double mean = 0, sd = 1;
  double step = 0;
  friend bool operator==(const NormalDistribution&, const NormalDistribution&) = default;
};

using Distribution =
    std::variant<FloatDistribution, IntDistribution, CategoricalDistribution, NormalDistribution>;

/// The values of a trial that are resolved so far, for a C++ function as sample_from.
using Resolved = std::map<std::string, Value, std::less<>>;
using SampleFunction = std::function<Value(const Resolved& config)>;

// ---- Domains: what a user writes. ----

/// A parameter's domain, as one of the functions below makes it. A value converts to the constant.
class Domain {
 public:
  Domain(Value constant);
  template <class T>
  requires std::constructible_from<Value, T> Domain(T constant) : Domain(Value(constant)) {}

  /// Reads "loguniform(1e-4, 1e-1)", "choice('a', 'b')", "grid_search(1, 2)",
  /// "sample_from(2 ** randint(2, 9))"; a text without a bracket is a constant text, and so is one
  /// in quotes of its own ("'a (b)'"). `where` starts the usage errors: unknown function (nearest
  /// as hint), wrong number of arguments, bounds.
  static Domain parse(std::string_view text, std::string_view where);

  enum class Kind { kConstant, kDistribution, kGrid, kExpression, kFunction };
  Kind kind() const { return kind_; }
  const Value& constant() const { return constant_; }
  const Distribution& distribution() const { return distribution_; }  ///< kDistribution, kGrid
  const std::string& expression() const { return expression_; }       ///< kExpression
  const SampleFunction& function() const { return function_; }        ///< kFunction

  /// As parse() reads it, but for constants that are no text, which are shown as they are;
  /// "sample_from(<function>)" for a C++ function.
  std::string text() const;

 private:
  friend Domain make_domain(Kind, Distribution);
  friend Domain sample_from(std::string_view expression);
  friend Domain sample_from(SampleFunction function);
  Domain() = default;

  Kind kind_ = Kind::kConstant;
  Value constant_;
  Distribution distribution_;
  std::string expression_;
  SampleFunction function_;
};

// Each throws a usage error for bounds that are upside down, not finite, not positive where a
// logarithm is taken, or not multiples of q.
Domain choice(std::vector<Value> values);
Domain grid_search(std::vector<Value> values);
Domain uniform(double low, double high);             ///< [low, high)
Domain loguniform(double low, double high);          ///< [low, high), uniform in the logarithm
Domain quniform(double low, double high, double q);  ///< multiples of q, both ends included
Domain qloguniform(double low, double high, double q);
Domain randint(int64_t low, int64_t high);              ///< [low, high): high excluded
Domain qrandint(int64_t low, int64_t high, int64_t q);  ///< high included unless q is 1, as Ray
Domain lograndint(int64_t low, int64_t high);
Domain qlograndint(int64_t low, int64_t high, int64_t q);  ///< as lograndint and qrandint
Domain randn(double mean = 0, double sd = 1);
Domain qrandn(double mean, double sd, double q);  ///< rounded to a multiple of q

/// Grammar: numbers, names of parameters, + - * / // % **, brackets, min, max, round, and draws
/// (uniform(…), randint(…), …): "2 ** randint(2, 9)". // and % round towards minus infinity and **
/// of whole numbers is a whole number, as in Python; all of it is Note [Expressions] in
/// expression.h.
Domain sample_from(std::string_view expression);
/// A function of the values resolved before it. Learned by no searcher: see Space::opaque.
Domain sample_from(SampleFunction function);

}  // namespace muster::tune
