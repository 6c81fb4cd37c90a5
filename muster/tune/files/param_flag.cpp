// --param lr='loguniform(1e-4,1e-1)'
#include <cmath>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/number_rule.h"
#include "muster/base/text.h"
#include "muster/tune/files/study_file.h"

namespace muster::tune {
namespace {

/// Throws a usage error for a number that would become another one, or a text.
Value constant(std::string_view text, const std::string& where) {
  if (const std::string_view rule = overflow_rule(text); !rule.empty()) {
    throw usage_error({.refused = where,
                       .rule = std::string(rule),
                       .value = std::string(text),
                       .hint = "a text of digits stands in quotes"});
  }
  if (text == "true") return true;
  if (text == "false") return false;
  if (const auto whole = to_int(text)) return *whole;
  if (const auto number = to_double(text); number && std::isfinite(*number)) return *number;
  return text;
}

/// Where " when " stands behind a domain or a text in quotes, or npos.
size_t condition_at(std::string_view text) {
  constexpr std::string_view kWhen = " when ";
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote == '\0' && i > 0 && text.substr(i).starts_with(kWhen)) return i;
    if (quote != '\0' && text[i] == '\\')
      ++i;
    else if (quote == '\0' && (text[i] == '\'' || text[i] == '"'))
      quote = text[i];
    else if (text[i] == quote)
      quote = '\0';
  }
  return std::string_view::npos;
}

}  // namespace

Parameter parse_param_flag(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string name(trim(text.substr(0, equals)));
  if (equals == std::string_view::npos || name.empty()) {
    throw usage_error({.refused = concat("--param ", text),
                       .rule = "NAME=DOMAIN is needed",
                       .hint = "--param lr='loguniform(1e-4,1e-1)'"});
  }
  std::string_view domain = trim(text.substr(equals + 1)), when;
  if (const size_t at = condition_at(domain); at != std::string_view::npos) {
    when = trim(domain.substr(at + 6));
    domain = trim(domain.substr(0, at));
  }
  const std::string where = concat("--param ", name);
  Domain parsed = Domain::parse(domain, where);
  if (parsed.kind() == Domain::Kind::kConstant && parsed.constant() == Value(domain))
    parsed = constant(domain, where);
  return {.name = name, .domain = std::move(parsed), .when = std::string(when)};
}

}  // namespace muster::tune
