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

Value choice_of(double internal, const Json& choices, std::string_view text) {
  if (!(internal >= 0 && internal < double(choices.size()))) throw no_distribution(text);
  return value_from(choices[static_cast<size_t>(internal)], "a choice");
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

Distribution distribution_from_optuna(std::string_view text) {
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
  if (!(std::fabs(low) < 0x1p53 && std::fabs(high) < 0x1p53 && step < 0x1p53))
    throw no_distribution(text);
  return IntDistribution{static_cast<int64_t>(low),
                         static_cast<int64_t>(high),
                         log,
                         std::max<int64_t>(1, static_cast<int64_t>(step))};
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
