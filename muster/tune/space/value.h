// The value of a hyperparameter.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "muster/base/json_fwd.h"

namespace muster::tune {

/// True or false, a whole number, a number, a text, or nothing: a conditional parameter that does
/// not apply. Whole numbers and numbers stay apart (choice(2, 4) gives 2, not 2.0).
class Value {
 public:
  Value() = default;
  Value(bool value) : data_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : data_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  Value(T value) : data_(static_cast<double>(value)) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(std::string_view value) : data_(std::string(value)) {}
  Value(std::string value) : data_(std::move(value)) {}

  bool is_none() const { return data_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_text() const { return std::holds_alternative<std::string>(data_); }

  /// Throw a usage error that shows the value if it is of another kind. An int reads as a double; a
  /// double reads as an int if it is a whole number.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;
  const std::string& as_text() const;

  friend bool operator==(const Value&, const Value&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string> data_;
};

/// As it is typed on a command line and shown in tables: 3, 0.1, true, adam; nothing is "".
std::string value_text(const Value& value);

/// null, true, 3, 0.1, "adam".
Json to_json(const Value& value);
/// Throws a usage error that names `where` for an array or an object.
Value value_from(const Json& json, std::string_view where);

/// Which end of the metric is the better one.
enum class Mode { kMin, kMax };

/// "min", "max". Throws a usage error for anything else.
Mode parse_mode(std::string_view text);
std::string_view name_of(Mode mode);

/// Larger is better: the metric for max, its negative for min; NaN stays NaN.
inline double score_of(double metric, Mode mode) { return mode == Mode::kMax ? metric : -metric; }

}  // namespace muster::tune
