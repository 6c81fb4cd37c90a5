#include "muster/base/params.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "muster/base/name_list.h"
#include "muster/base/number_rule.h"

namespace muster {
namespace {

/// Whether a name in brackets begins at `at`.
bool begins_name(std::string_view text, size_t at) {
  const size_t before = text.substr(0, at).find_last_not_of(" \t");
  return before != std::string_view::npos && (text[before] == '[' || text[before] == ',');
}

struct ListRule {
  std::string_view rule;
  std::string_view hint = {};
};

constexpr ListRule kBrackets{.rule = "each [ has its ], and each ] its ["};
constexpr ListRule kQuotes{
    .rule = "a name that begins with a quote in brackets ends with one",
    .hint = "a quote of the name itself is two in its quotes: [\"\"\"a\"] is \"a"};
constexpr ListRule kPairs{.rule = "each part is name=value"};
constexpr ListRule kQuotedPairs{
    .rule = kPairs.rule,
    .hint = "a name with a comma stands in brackets and quotes: name=[\"a,b\"]"};

[[noreturn]] void refuse_list(const ListRule& broken, std::string_view text) {
  throw usage_error({.refused = "parameter list",
                     .rule = std::string(broken.rule),
                     .value = concat('"', text, '"'),
                     .hint = std::string(broken.hint)});
}

struct ListParts {
  std::vector<std::string> parts;
  const ListRule* broken = nullptr;  ///< null where the text keeps both
};

/// At commas outside brackets; those in quoted names (names_in) are letters. Quotes that do not end
/// break a rule: taken for letters, they would end in whatever parameter is put behind them.
ListParts split_outside_brackets(std::string_view text) {
  std::vector<std::string> parts(1);
  int open = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"' && open > 0 && begins_name(text, at)) {
      const size_t behind = behind_quotes(text, at);
      if (behind == std::string_view::npos) return {.parts = {}, .broken = &kQuotes};
      parts.back() += text.substr(at, behind - at);
      at = behind - 1;
      continue;
    }
    if (letter == '[') ++open;
    if (letter == ']' && --open < 0) break;
    if (letter == ',' && open == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (open != 0) return {.parts = {}, .broken = &kBrackets};
  return {.parts = std::move(parts)};
}

template <class Value>
std::vector<Value> parse_list(std::string_view text) {
  if (text == "none" || text == "[]") return {};
  const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  if (!is_list) return {detail::ParamType<Value>::parse(text)};
  std::vector<Value> values;
  for (const std::string& part : split(text.substr(1, text.size() - 2), ','))
    values.push_back(detail::ParamType<Value>::parse(trim(part)));
  return values;
}

template <class Value>
std::string show_list(const std::vector<Value>& values) {
  if (values.empty()) return "none";
  std::vector<std::string> parts;
  for (const Value value : values) parts.push_back(detail::ParamType<Value>::show(value));
  return parts.size() == 1 ? parts[0] : concat('[', join(parts, ","), ']');
}

}  // namespace

ParamValues parse_param_values(std::string_view text) {
  ParamValues values;
  if (trim(text).empty()) return values;
  const ListParts split = split_outside_brackets(text);
  if (split.broken != nullptr) refuse_list(*split.broken, text);
  for (const std::string& part : split.parts) {
    const size_t at = part.find('=');
    const std::string name(trim(std::string_view(part).substr(0, at)));
    if (at == std::string::npos || name.empty()) {
      refuse_list(text.find('"') == std::string_view::npos ? kPairs : kQuotedPairs, part);
    }
    if (!values.emplace(name, trim(std::string_view(part).substr(at + 1))).second) {
      throw usage_error(
          {.refused = "parameter \"" + name + "\"", .rule = "each name is given once"});
    }
  }
  return values;
}

Spec parse_spec(std::string_view text) {
  const size_t at = text.find(':');
  if (at == std::string_view::npos) return {.name = std::string(text)};
  return {.name = std::string(text.substr(0, at)),
          .params = parse_param_values(text.substr(at + 1))};
}

namespace detail {

int64_t ParamType<int64_t>::parse(std::string_view text) {
  if (const auto value = to_int(text)) return *value;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool whole =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  throw usage_error({.rule = whole ? "a whole number from -9223372036854775808 to "
                                     "9223372036854775807 is needed"
                                   : "a whole number is needed",
                     .value = concat('"', text, '"')});
}

double ParamType<double>::parse(std::string_view text) {
  const auto value = to_double(text);
  // A comparison with NaN is false, so ranges of options would let it through, or not, by how they
  // are written.
  if (value && std::isfinite(*value)) return *value;
  throw usage_error({.rule = std::string(number_rule(text)), .value = concat('"', text, '"')});
}

bool ParamType<bool>::parse(std::string_view text) {
  if (text == "true" || text == "1" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "no") return false;
  throw usage_error({.rule = "true or false is needed", .value = concat('"', text, '"')});
}

std::vector<int64_t> ParamType<std::vector<int64_t>>::parse(std::string_view text) {
  return parse_list<int64_t>(text);
}
std::string ParamType<std::vector<int64_t>>::show(const std::vector<int64_t>& values) {
  return show_list(values);
}
std::vector<double> ParamType<std::vector<double>>::parse(std::string_view text) {
  return parse_list<double>(text);
}
std::string ParamType<std::vector<double>>::show(const std::vector<double>& values) {
  return show_list(values);
}

namespace {

/// `&Derived::member` has the type of the base's member, and so the base's default: what help and
/// lists show would not be what is made.
void check_defaults(std::span<const Param> params, const void* fresh, std::string_view owner) {
  for (const Param& param : params) {
    const std::string made = param.show(fresh), shown = param.default_value();
    if (made == shown) continue;
    throw internal_error({.refused = concat(owner, " parameter \"", param.name, '"'),
                          .rule = concat("its default is that of its struct, ", shown),
                          .value = made});
  }
}

}  // namespace

void set_params(std::span<const Param> params,
                const ParamValues& values,
                void* options,
                std::string_view owner) {
  check_param_names(params, values, owner);
  check_defaults(params, options, owner);
  for (const Param& param : params) {
    const auto value = values.find(param.name);
    if (value == values.end()) continue;
    try {
      param.set(options, value->second);
    } catch (const Error& error) {
      ErrorText said = error.text();
      said.refused = concat(owner, " parameter \"", param.name, "\"");
      throw Error(error.kind(), said);
    }
  }
}

std::string spec_text(std::string_view name, std::span<const Param> params, const void* options) {
  std::string text(name);
  char separator = ':';
  for (const Param& param : params) {
    const std::string value = param.show(options);
    if (value == param.default_value()) continue;
    if (split_outside_brackets(value).parts.size() != 1 || trim(value) != value) {
      throw usage_error({.refused = concat(name, " parameter \"", param.name, '"'),
                         .rule = "it has no comma outside brackets, no bracket and no quoted name "
                                 "without its other end, and no blank at an end",
                         .value = concat('"', value, '"')});
    }
    text += concat(separator, param.name, '=', value);
    separator = ',';
  }
  return text;
}

}  // namespace detail

void check_param_names(std::span<const Param> params,
                       const ParamValues& values,
                       std::string_view owner) {
  std::vector<std::string> known;
  for (const Param& param : params) known.emplace_back(param.name);
  for (const auto& [name, text] : values) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw usage_error(
        {.refused = concat(owner, " has no parameter \"", name, "\""),
         .hint = known.empty() ? concat(owner, " takes no parameters") : suggestion(name, known)});
  }
}

}  // namespace muster
