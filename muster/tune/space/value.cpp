#include "muster/tune/space/value.h"

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

/// A whole number that only a double can hold, and holds.
Value beyond_64_bits(uint64_t number, std::string_view where) {
  const auto rounded = static_cast<double>(number);
  if (rounded < 0x1p64 && static_cast<uint64_t>(rounded) == number) return rounded;
  throw usage_error({.refused = std::string(where),
                     .rule = "a whole number is within 64 bits with a sign, or is a double",
                     .value = std::to_string(number),
                     .hint = "as a text, in quotes, it stays as it is"});
}

[[noreturn]] void refuse_value(const Value& value, std::string_view wanted) {
  const std::string shown = value.is_none() ? "nothing" : json_text(to_json(value));
  throw usage_error({.refused = "a value", .rule = concat(wanted, " is needed"), .value = shown});
}

}  // namespace

bool Value::as_bool() const {
  if (const bool* value = std::get_if<bool>(&data_)) return *value;
  refuse_value(*this, "true or false");
}

int64_t Value::as_int() const {
  if (const int64_t* value = std::get_if<int64_t>(&data_)) return *value;
  const double* value = std::get_if<double>(&data_);
  // The range is half open: 2^63 is a double, and no int64_t.
  if (value != nullptr && *value >= -0x1p63 && *value < 0x1p63 && std::trunc(*value) == *value)
    return static_cast<int64_t>(*value);
  refuse_value(*this, "a whole number");
}

double Value::as_double() const {
  if (const double* value = std::get_if<double>(&data_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&data_)) return static_cast<double>(*value);
  refuse_value(*this, "a number");
}

const std::string& Value::as_text() const {
  if (const std::string* value = std::get_if<std::string>(&data_)) return *value;
  refuse_value(*this, "a text");
}

std::string value_text(const Value& value) {
  if (value.is_none()) return "";
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_text()) return value.as_text();
  const std::string text = shortest(value.as_double());
  // 2.0 is not 2; "inf" and "1e+22" look like no whole number as they are.
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

Json to_json(const Value& value) {
  if (value.is_none()) return nullptr;
  if (value.is_bool()) return value.as_bool();
  if (value.is_int()) return value.as_int();
  if (value.is_text()) return value.as_text();
  const double number = value.as_double();
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

Value value_from(const Json& json, std::string_view where) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)
    return beyond_64_bits(json.get<uint64_t>(), where);
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  throw usage_error({.refused = std::string(where),
                     .rule = "a value is null, true, false, a number or a text",
                     .value = json_text(json)});
}

Mode parse_mode(std::string_view text) {
  if (text == "min") return Mode::kMin;
  if (text == "max") return Mode::kMax;
  throw usage_error(
      {.refused = "mode", .rule = "\"min\" or \"max\" is needed", .value = concat('"', text, '"')});
}

std::string_view name_of(Mode mode) { return mode == Mode::kMin ? "min" : "max"; }

}  // namespace muster::tune
