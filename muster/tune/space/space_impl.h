// What a Space keeps: its parameters, and their expressions ready to be evaluated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/tune/space/expression.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

/// An expression of the space, and which parameter each of its names is.
struct Bound {
  Expression expression;
  std::vector<size_t> parameters;  ///< by Expression::names
};

struct Compiled {
  std::optional<Bound> value, when;
  size_t first_dimension = 0, dimension_count = 0;
  bool opaque = false;  ///< a C++ function, or computed from one

  /// The parameters that its value and its condition name.
  std::vector<size_t> needs() const;
};

struct Space::Impl {
  std::vector<Parameter> parameters;
  std::vector<Dimension> dimensions;
  std::vector<Compiled> compiled;  // by parameter
  std::vector<size_t> order;       // in which parameters are evaluated
  std::vector<uint32_t> tags;      // by dimension, for its random stream
  std::vector<bool> deciding;      // parameters whose values conditions hang on, directly or not
  std::map<std::string, size_t, std::less<>> by_name;  // parameters

  explicit Impl(std::vector<Parameter> parameters);

  /// Values of the parameters for which `wanted` (by parameter; empty: all) holds, nothing for the
  /// others. What is wanted needs nothing that is not.
  Values values_at(const Point& point, const std::vector<bool>& wanted) const;

  /// The value of one parameter at `point` for the values of those that it needs.
  Value value_of_parameter(size_t parameter, const Point& point, const Values& values) const;
  bool applies(size_t parameter, const Values& values) const;

  /// The dimensions of parameter `p` at `point`, as values for its expression.
  std::vector<Value> draws_at(size_t parameter, const Point& point) const;

  double draw_dimension(size_t dimension, uint64_t seed, int64_t number, uint64_t round) const;

 private:
  void check_names();
  void check_constants() const;
  void compile();
  Bound bind(Expression expression, size_t parameter, std::string_view part) const;
  void check_choices(size_t parameter, const Bound& condition, const Node& node) const;
  void add_dimensions(size_t parameter);
  void put_in_order();
  void find_opaque();
  void tag_dimensions();
  void find_deciding();
  void try_out() const;
};

/// The usage error about a parameter: `parameter "lr"`, the rule, the value, the hint.
[[noreturn]] void refuse_parameter(std::string_view name,
                                   std::string rule,
                                   std::string value = "",
                                   std::string hint = "");

}  // namespace muster::tune
