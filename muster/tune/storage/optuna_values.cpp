// Distributions and states as Optuna's tables hold them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/overloaded.h"
#include "muster/base/text.h"
#include "muster/tune/space/python_text.h"
#include "muster/tune/storage/optuna_schema.h"

namespace muster::tune {
namespace {

std::string python_bool(bool value) { return value ? "true" : "false"; }

std::string float_json(double low, double high, bool log, double step) {
  return concat(R"({"name": "FloatDistribution", "attributes": {"step": )",
                step > 0 && !log ? python_number(step) : "null",
                R"(, "low": )",
                python_number(low),
                R"(, "high": )",
                python_number(high),
                R"(, "log": )",
                python_bool(log),
                "}}");
}

std::string int_json(const IntDistribution& ints) {
  const int64_t step = ints.log ? 1 : ints.step;
  return concat(R"({"name": "IntDistribution", "attributes": {"log": )",
                python_bool(ints.log),
                R"(, "step": )",
                step,
                R"(, "low": )",
                ints.low,
                R"(, "high": )",
                ints.low + (ints.high - ints.low) / step * step,
                "}}");
}

std::string categorical_json(const CategoricalDistribution& categorical) {
  std::string out = R"({"name": "CategoricalDistribution", "attributes": {"choices": [)";
  for (size_t i = 0; i < categorical.choices.size(); ++i) {
    if (i > 0) out += ", ";
    out += python_json(categorical.choices[i]);
  }
  return out + "]}}";
}

std::string normal_json(const NormalDistribution& normal) {
  constexpr double kDeviations = 10;  // no draw from 53 random bits is farther out than 9
  double low = normal.mean - kDeviations * normal.sd, high = normal.mean + kDeviations * normal.sd;
  if (normal.step > 0) {
    low = std::floor(low / normal.step) * normal.step;
    high = std::ceil(high / normal.step) * normal.step;
  }
  return float_json(low, high, false, normal.step);
}

Error no_distribution(std::string_view text) {
  return usage_error({.refused = "a parameter's distribution cannot be read",
                      .rule = "it is as Optuna writes it",
                      .value = std::string(text.substr(0, 200))});
}

/// A number of a distribution's attributes; `missing` if it is not there or null.
double attribute(const Json& attributes, const char* name, double missing) {
  return attributes.contains(name) && attributes[name].is_number() ? attributes[name].get<double>()
                                                                   : missing;
}

bool is_of_64_bits(const Json& attributes, const char* name) {
  return attributes.contains(name) && attributes[name].is_number_integer() &&
         !(attributes[name].is_number_unsigned() && attributes[name].get<uint64_t>() >> 63 != 0);
}

/// Optuna's table keeps whole numbers as doubles, and Python's have no end. As far as doubles tell
/// the range's steps, or fiftieths of it, apart, what is told from them is right.
Distribution whole_numbers(const Json& attributes,
                           const FloatDistribution& range,
                           std::string_view whose) {
  constexpr double kEnoughParts = 50;
  const bool is_one = attributes["low"] == attributes["high"];
  const double largest = std::max(std::fabs(range.low), std::fabs(range.high));
  const double gap = largest - std::nextafter(largest, 0);
  if (!is_one && std::max(range.step, (range.high - range.low) / kEnoughParts) < gap) {
    throw usage_error(
        {.refused = concat(whose, ", whole numbers that Optuna's table cannot hold"),
         .rule =
             concat("it keeps doubles, of which neighbours differ by ", shortest(gap), " there"),
         .value = concat(json_text(attributes["low"]),
                         " to ",
                         json_text(attributes["high"]),
                         " in steps of ",
                         shortest(range.step))});
  }
  if (!is_of_64_bits(attributes, "low") || !is_of_64_bits(attributes, "high") ||
      range.step >= 0x1p63)
    return FloatDistribution{range.low, range.high, range.log, range.log ? 0 : range.step};
  return IntDistribution{attributes["low"].get<int64_t>(),
                         attributes["high"].get<int64_t>(),
                         range.log,
                         static_cast<int64_t>(range.step)};
}

Value choice_of(double internal, const Json& choices, std::string_view text) {
  if (!(internal >= 0 && internal < double(choices.size()))) throw no_distribution(text);
  const Json& choice = choices[static_cast<size_t>(internal)];
  // Python's None is a choice as others: no value would say that the parameter does not apply.
  return choice.is_null() ? Value("None") : value_from(choice, "a choice");
}

}  // namespace

std::string distribution_json(const Distribution& distribution) {
  return std::visit(Overloaded{[](const FloatDistribution& d) {
                                 return float_json(d.low, d.high, d.log, d.step);
                               },
                               [](const IntDistribution& d) { return int_json(d); },
                               [](const CategoricalDistribution& d) { return categorical_json(d); },
                               [](const NormalDistribution& d) { return normal_json(d); }},
                    distribution);
}

Value value_from_optuna(double internal, std::string_view text) {
  // Python writes NaN and Infinity among choices, which is no JSON: such a study is refused.
  const Json json = parse_json(text, "a parameter's distribution");
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    throw no_distribution(text);
  const std::string name = json["name"];
  if (name == "CategoricalDistribution") {
    if (!json.contains("attributes") || !json["attributes"].is_object() ||
        !json["attributes"].contains("choices"))
      throw no_distribution(text);
    return choice_of(internal, json["attributes"]["choices"], text);
  }
  // Also the names of earlier versions: IntUniformDistribution, LogUniformDistribution, …
  if (!name.ends_with("Distribution")) throw no_distribution(text);
  if (name.starts_with("Int") && std::fabs(internal) < 0x1p63)
    return static_cast<int64_t>(internal);
  return internal;
}

Distribution distribution_from_optuna(std::string_view text, std::string_view whose) {
  const Json json = parse_json(text, "a parameter's distribution");
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
      !json.contains("attributes") || !json["attributes"].is_object())
    throw no_distribution(text);
  const std::string name = json["name"];
  const Json& attributes = json["attributes"];
  if (name == "CategoricalDistribution") {
    if (!attributes.contains("choices") || !attributes["choices"].is_array())
      throw no_distribution(text);
    CategoricalDistribution categorical;
    for (const Json& choice : attributes["choices"])
      categorical.choices.push_back(value_from(choice, "a choice"));
    return categorical;
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double low = attribute(attributes, "low", kNone),
               high = attribute(attributes, "high", kNone);
  if (!name.ends_with("Distribution") || !(low <= high)) throw no_distribution(text);
  // Earlier versions: IntLogUniformDistribution, DiscreteUniformDistribution with q, …
  const bool log = name.find("Log") != std::string::npos ||
                   (attributes.contains("log") && attributes["log"] == true);
  const double step = attribute(attributes, "step", attribute(attributes, "q", 0));
  if (!name.starts_with("Int")) return FloatDistribution{low, high, log, log ? 0 : step};
  return whole_numbers(attributes, {low, high, log, log ? 1 : std::max(1.0, step)}, whose);
}

bool is_logarithmic(std::string_view text) {
  if (text.find("true") == text.npos && text.find("Log") == text.npos) return false;  // most
  const Json json = parse_json(text, "a parameter's distribution");
  if (!json.is_object() || !json.contains("attributes") || !json["attributes"].is_object())
    return false;
  const Json& attributes = json["attributes"];
  if (attributes.contains("log")) return attributes["log"] == true;
  // Earlier versions: LogUniformDistribution, IntLogUniformDistribution.
  return json.contains("name") && json["name"].is_string() &&
         json["name"].get<std::string>().find("Log") != std::string::npos;
}

TrialState state_of(std::string_view word) {
  if (word == "WAITING") return TrialState::kPending;
  if (word == "RUNNING") return TrialState::kRunning;
  if (word == "COMPLETE") return TrialState::kComplete;
  if (word == "PRUNED") return TrialState::kPruned;
  if (word == "FAIL") return TrialState::kFailed;
  throw usage_error({.refused = "a trial's state cannot be read",
                     .rule = "WAITING, RUNNING, COMPLETE, PRUNED or FAIL",
                     .value = std::string(word.substr(0, 40))});
}

std::string_view value_type(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INF_POS" : "INF_NEG";
  return "FINITE";
}

double from_value_type(std::string_view type, double value) {
  if (type == "NAN") return std::numeric_limits<double>::quiet_NaN();
  if (type == "INF_POS") return std::numeric_limits<double>::infinity();
  if (type == "INF_NEG") return -std::numeric_limits<double>::infinity();
  return value;
}

}  // namespace muster::tune
