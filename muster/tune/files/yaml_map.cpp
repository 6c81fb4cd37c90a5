#include "muster/tune/files/yaml_map.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/number_rule.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

bool is_among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What YAML 1.1 reads as a number and we would not: 1_000, 0x1F, 010, 1:30.
bool is_odd_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  if (text.starts_with("0x") || text.starts_with("0b")) return true;
  const bool only = text.find_first_not_of("0123456789_:") == std::string_view::npos;
  const bool octal = text[0] == '0' && text.size() > 1;
  return only && (octal || text.find_first_of("_:") != std::string_view::npos);
}

/// A plain scalar.
std::optional<Value> plain_value(const std::string& text) {
  if (is_among(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_among(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return false;
  if (is_odd_number(text)) return std::nullopt;
  const std::string_view digits = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  if (const auto whole = to_int(digits)) return *whole;
  const bool looks_real = digits.find_first_of("0123456789") != std::string_view::npos &&
                          digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  if (const auto real = to_double(digits); looks_real && real) {
    if (!std::isfinite(*real)) return std::nullopt;
    return *real;
  }
  return text;
}

}  // namespace

void refuse_yaml(const fs::path& file,
                 const YAML::Node& at,
                 std::string refused,
                 std::string rule,
                 std::string value,
                 std::string hint) {
  const YAML::Mark mark = at.Mark();
  throw usage_error(
      {.refused = concat(file.string(), ':', mark.line + 1, ':', mark.column + 1, ": ", refused),
       .rule = std::move(rule),
       .value = std::move(value),
       .hint = std::move(hint)});
}

Value yaml_value(const fs::path& file, const YAML::Node& node, std::string_view what) {
  const auto refuse = [&](std::string rule, const std::string& value = "") {
    refuse_yaml(file, node, std::string(what), std::move(rule), value);
  };
  if (!node.IsScalar()) refuse("it is a text, a number, true or false");
  const std::string text = node.Scalar();
  if (text.find('\0') != std::string::npos) refuse("a text has no zero byte");
  if (node.Tag() == "!") return text;  // in quotes
  if (!is_among(node.Tag(), {"", "?"})) refuse("it has no tag", node.Tag());
  const std::string_view digits = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  if (const std::string_view rule = overflow_rule(digits); !rule.empty())
    refuse(std::string(rule), text);
  const auto value = plain_value(text);
  if (!value) refuse("a number is written plainly, with digits and a point", text);
  return *value;
}

YamlMap::YamlMap(const fs::path& file, const YAML::Node& node, std::string name)
    : file_(&file), node_(node), name_(std::move(name)) {
  if (!node.IsMap())
    refuse_yaml(
        file, node, name_.empty() ? "the sweep" : concat("key \"", name_, '"'), "it is a map");
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) refuse_yaml(file, entry.first, "a key", "it is a text");
    const std::string& key = entry.first.Scalar();
    for (const Item& other : items_) {
      if (other.key == key)
        refuse_yaml(file, entry.first, concat("key \"", full_name(key), '"'), "it is given once");
    }
    items_.push_back({key, entry.first, entry.second});
  }
}

std::string YamlMap::full_name(std::string_view key) const {
  return name_.empty() ? std::string(key) : concat(name_, '.', key);
}

std::optional<YAML::Node> YamlMap::find(std::string_view key) {
  known_.emplace_back(key);
  for (const Item& item : items_) {
    if (item.key == key) return item.node;
  }
  return std::nullopt;
}

void YamlMap::refuse(std::string_view key,
                     std::string rule,
                     std::string value,
                     std::string hint) const {
  const auto at =
      std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.key == key; });
  refuse_yaml(*file_,
              at == items_.end() ? node_ : at->key_node,
              concat("key \"", full_name(key), '"'),
              std::move(rule),
              std::move(value),
              std::move(hint));
}

void YamlMap::refuse_all(std::string rule, std::string hint) const {
  refuse_yaml(*file_, node_, concat("key \"", name_, '"'), std::move(rule), "", std::move(hint));
}

std::optional<Value> YamlMap::value(std::string_view key) {
  const auto node = find(key);
  if (!node) return std::nullopt;
  return yaml_value(*file_, *node, concat("key \"", full_name(key), '"'));
}

std::optional<std::string> YamlMap::text(std::string_view key) {
  const auto found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_text() || found->as_text().empty()) refuse(key, "it is a text, not empty");
  return found->as_text();
}

std::optional<double> YamlMap::number(std::string_view key) {
  const auto found = value(key);
  if (!found) return std::nullopt;
  if (!found->is_number()) refuse(key, "it is a number", value_text(*found));
  return found->as_double();
}

std::optional<int64_t> YamlMap::whole(std::string_view key, int64_t least) {
  const auto found = value(key);
  if (!found) return std::nullopt;
  const bool is_whole = found->is_int() && found->as_int() >= least;
  if (!is_whole) refuse(key, concat("it is a whole number, at least ", least), value_text(*found));
  return found->as_int();
}

std::optional<std::vector<Value>> YamlMap::values(std::string_view key) {
  const auto node = find(key);
  if (!node) return std::nullopt;
  if (!node->IsSequence() || node->size() == 0) refuse(key, "it is a list with an item");
  std::vector<Value> out;
  for (const YAML::Node& item : *node)
    out.push_back(yaml_value(*file_, item, concat("an item of \"", full_name(key), '"')));
  return out;
}

std::optional<YamlMap> YamlMap::map(std::string_view key) {
  const auto node = find(key);
  if (!node) return std::nullopt;
  return YamlMap(*file_, *node, full_name(key));
}

void YamlMap::refuse_unknown() const {
  for (const Item& item : items_) {
    if (std::find(known_.begin(), known_.end(), item.key) == known_.end())
      refuse_yaml(*file_,
                  item.key_node,
                  concat("unknown key \"", full_name(item.key), '"'),
                  "",
                  "",
                  suggestion(item.key, known_));
  }
}

}  // namespace muster::tune
