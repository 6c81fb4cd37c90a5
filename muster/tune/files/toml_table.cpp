#include "muster/tune/files/toml_table.h"

#include <algorithm>
#include <cmath>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {

namespace {

/// What stands there, for an error; of lists and tables nothing.
std::string shown_node(const toml::node& node) {
  if (const auto number = node.value_exact<double>()) return shortest(*number);
  if (const auto whole = node.value_exact<int64_t>()) return std::to_string(*whole);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  return node.value_exact<std::string>().value_or("");
}

}  // namespace

std::string place_of(const std::filesystem::path& file, toml::source_position at) {
  return concat(file.string(), ':', at.line, ':', at.column);
}

toml::table parse_toml(std::string_view text, const std::filesystem::path& file) {
  try {
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    const bool is_storage = text.starts_with("SQLite");
    throw usage_error({.refused = concat(place_of(file, error.source().begin), ": not valid TOML"),
                       .rule = std::string(error.description()),
                       .hint = is_storage ? "name the file that describes the study" : ""});
  }
}

std::vector<TomlItem> in_order(const toml::table& table) {
  std::vector<TomlItem> items;
  for (const auto& [key, node] : table)
    items.push_back({std::string(key.str()), &node, key.source().begin});
  std::stable_sort(items.begin(), items.end(), [](const TomlItem& a, const TomlItem& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  return items;
}

TomlTable::TomlTable(const std::filesystem::path& file,
                     const toml::table& table,
                     std::string name,
                     toml::source_position at)
    : file_(&file), name_(std::move(name)), at_(at), items_(in_order(table)) {}

const TomlItem* TomlTable::find(std::string_view key) {
  known_.emplace_back(key);
  const auto at = std::find_if(
      items_.begin(), items_.end(), [&](const TomlItem& item) { return item.key == key; });
  return at == items_.end() ? nullptr : &*at;
}

std::string TomlTable::full_name(std::string_view key) const {
  return name_.empty() ? std::string(key) : concat(name_, '.', key);
}

void TomlTable::refuse(const TomlItem& item,
                       std::string rule,
                       std::string value,
                       std::string hint) const {
  throw usage_error({.refused = concat(place(item), ": key \"", full_name(item.key), '"'),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

void TomlTable::refuse(std::string_view key,
                       std::string rule,
                       std::string value,
                       std::string hint) {
  if (const TomlItem* item = find(key))
    refuse(*item, std::move(rule), std::move(value), std::move(hint));
  throw usage_error({.refused = concat(place(), ": key \"", full_name(key), '"'),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

std::optional<std::string> TomlTable::text(std::string_view key) {
  const TomlItem* item = find(key);
  if (item == nullptr) return std::nullopt;
  const auto value = item->node->value_exact<std::string>();
  if (!value || value->empty() || value->find('\0') != std::string::npos)
    refuse(*item, "it is a text, not empty and without a zero byte");
  return *value;
}

std::optional<int64_t> TomlTable::whole(std::string_view key, int64_t least) {
  const TomlItem* item = find(key);
  if (item == nullptr) return std::nullopt;
  const auto value = item->node->value_exact<int64_t>();
  if (!value) refuse(*item, "it is a whole number", shown_node(*item->node));
  if (*value < least) refuse(*item, concat("it is at least ", least), std::to_string(*value));
  return *value;
}

std::optional<double> TomlTable::number(std::string_view key, double least) {
  const TomlItem* item = find(key);
  if (item == nullptr) return std::nullopt;
  auto value = item->node->value_exact<double>();
  if (const auto whole = item->node->value_exact<int64_t>()) value = static_cast<double>(*whole);
  if (!value || !std::isfinite(*value))
    refuse(*item, "it is a finite number", shown_node(*item->node));
  if (*value < least) refuse(*item, concat("it is at least ", shortest(least)), shortest(*value));
  return *value;
}

std::optional<bool> TomlTable::truth(std::string_view key) {
  const TomlItem* item = find(key);
  if (item == nullptr) return std::nullopt;
  const auto value = item->node->value_exact<bool>();
  if (!value) refuse(*item, "it is true or false");
  return *value;
}

std::optional<TomlTable> TomlTable::table(std::string_view key) {
  const TomlItem* item = find(key);
  if (item == nullptr) return std::nullopt;
  const toml::table* table = item->node->as_table();
  if (table == nullptr) refuse(*item, concat("it is a table: [", full_name(key), ']'));
  return TomlTable(*file_, *table, full_name(key), item->at);
}

const toml::array* TomlTable::list(std::string_view key) {
  const TomlItem* item = find(key);
  if (item == nullptr) return nullptr;
  if (item->node->as_array() == nullptr) refuse(*item, "it is a list");
  return item->node->as_array();
}

std::vector<std::string> TomlTable::texts(std::string_view key) {
  const toml::array* array = list(key);
  std::vector<std::string> out;
  if (array == nullptr) return out;
  for (const toml::node& node : *array) {
    const auto text = node.value_exact<std::string>();
    if (!text || text->find('\0') != std::string::npos)
      refuse(key, "it is a list of texts", "", "numbers are written in quotes here");
    out.push_back(*text);
  }
  return out;
}

std::optional<double> TomlTable::duration_s(const std::string& key) {
  const auto seconds = number(key + "_s", 0);
  const TomlItem* item = find(key);
  if (item == nullptr) return seconds;
  if (seconds) refuse(*item, concat(key, " and ", key, "_s are the same"));
  const auto text = item->node->value_exact<std::string>();
  const auto duration = text ? muster::duration_s(*text) : std::nullopt;
  if (!duration)
    refuse(
        *item, "it is a duration in quotes, like \"90s\", \"10m\" or \"1h30m\"", text.value_or(""));
  return duration;
}

Value TomlTable::scalar(const TomlItem& item, const toml::node& node) const {
  if (const auto truth = node.value_exact<bool>()) return *truth;
  if (const auto whole = node.value_exact<int64_t>()) return *whole;
  if (const auto text = node.value_exact<std::string>(); text && text->find('\0') == text->npos)
    return *text;
  if (const auto number = node.value_exact<double>(); number && std::isfinite(*number))
    return *number;
  refuse(item, "it is a text, a finite number, true or false", shown_node(node));
}

void TomlTable::refuse_unknown() const {
  for (const TomlItem& item : items_) {
    if (std::find(known_.begin(), known_.end(), item.key) != known_.end()) continue;
    throw usage_error({.refused = concat(place(item), ": unknown key \"", full_name(item.key), '"'),
                       .hint = suggestion(item.key, known_)});
  }
}

}  // namespace muster::tune
