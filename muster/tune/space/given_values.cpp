#include "muster/tune/space/given_values.h"

#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

Value typed(std::string_view text) {
  if (const auto whole = to_int(text)) return *whole;
  if (const auto number = to_double(text)) return *number;
  if (text == "true" || text == "false") return text == "true";
  return std::string(text);
}

Value typed(const Space& space, size_t parameter, std::string_view text) {
  if (const auto image = space.image_of(parameter)) {
    for (const Value& value : *image) {
      if (value_text(value) == text) return value;
    }
  }
  return typed(text);
}

/// Also a draw of an expression may be named: "l1#0".
bool is_dimension(const Space& space, std::string_view name) {
  for (const Dimension& dimension : space.dimensions()) {
    if (dimension.name == name) return true;
  }
  return false;
}

Error unknown(const Space& space, const std::string& name) {
  std::vector<std::string> names;
  for (const Parameter& parameter : space.parameters()) names.push_back(parameter.name);
  return usage_error({.refused = concat("the space has no parameter \"", name, '"'),
                      .hint = suggestion(name, names)});
}

}  // namespace

std::map<std::string, Value> values_of_words(const Space& space,
                                             std::span<const std::string> words) {
  std::map<std::string, Value> values;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw usage_error({.refused = "a value of a trial",
                         .rule = "PARAMETER=VALUE",
                         .value = word,
                         .hint = "lr=0.1 width=64"});
    }
    const std::string name = word.substr(0, equals);
    const std::string_view text = std::string_view(word).substr(equals + 1);
    const auto parameter = space.index_of(name);
    if (!parameter && !is_dimension(space, name)) throw unknown(space, name);
    const bool is_new =
        values.emplace(name, parameter ? typed(space, *parameter, text) : typed(text)).second;
    if (!is_new)
      throw usage_error({.refused = concat("parameter \"", name, '"'), .rule = "it is given once"});
  }
  return values;
}

}  // namespace muster::tune
