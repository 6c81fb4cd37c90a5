#include "muster/program/config/config_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <tuple>

#include <CLI/CLI.hpp>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/base/toml.h"

namespace muster::program {
namespace fs = std::filesystem;
namespace {

/// "batch_size" -> "batch-size".
std::string flag_of(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

struct Item {
  std::string key;
  const toml::node* value;
  toml::source_position at;
};

/// The entries of a table in the order of the file; toml++ sorts them by name.
std::vector<Item> in_order(const toml::table& table) {
  std::vector<Item> items;
  for (const auto& [key, value] : table)
    items.push_back({std::string(key.str()), &value, key.source().begin});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  return items;
}

/// Turns one parsed file into words.
class ConfigReader {
 public:
  ConfigReader(const fs::path& file, std::span<const ConfigKey> keys) : file_(file), keys_(keys) {}

  std::vector<std::string> read(std::string_view text) {
    toml::table table;
    try {
      table = toml::parse(text, file_.string());
    } catch (const toml::parse_error& error) {
      refuse(error.source().begin, "not valid TOML", std::string(error.description()));
    }
    for (const Item& item : in_order(table)) add(item);
    return std::move(words_);
  }

  std::vector<ConfigPlace> take_places() { return std::move(places_); }

 private:
  [[noreturn]] void refuse(toml::source_position at,
                           const std::string& refused,
                           const std::string& rule = "",
                           const std::string& value = "",
                           const std::string& hint = "") const {
    throw usage_error(
        {.refused = concat(file_.string(), ":", at.line, ":", at.column, ": ", refused),
         .rule = rule,
         .value = value,
         .hint = hint});
  }

  std::string place_of(const Item& item) const {
    return concat(file_.string(), ':', item.at.line, ':', item.at.column);
  }

  const ConfigKey& key_of(const Item& item) {
    const std::string name = flag_of(item.key);
    for (const ConfigKey& key : keys_) {
      if (key.name != name) continue;
      if (!seen_.insert(name).second)
        refuse(item.at, concat("key \"", item.key, "\""), "each flag is given once");
      places_.push_back({.flag = name, .param = "", .place = place_of(item)});
      return key;
    }
    std::vector<std::string> known;
    for (const ConfigKey& key : keys_) known.push_back(key.name);
    refuse(item.at, concat("unknown key \"", item.key, "\""), "", "", suggestion(name, known));
  }

  void add(const Item& item) {
    const ConfigKey& key = key_of(item);
    if (key.is_switch) {
      const auto value = item.value->value_exact<bool>();
      if (!value) refuse(item.at, concat("key \"", item.key, "\""), "it is true or false");
      if (*value) words_.push_back("--" + key.name);
    } else if (const toml::table* table = item.value->as_table(); table && key.is_spec) {
      words_.push_back("--" + key.name + '=' + spec(item, *table, key));
    } else if (const toml::array* array = item.value->as_array(); array && key.separator == '\0') {
      for (const toml::node& element : *array)
        words_.push_back("--" + key.name + '=' + path_or(key, scalar(item, element)));
    } else {
      words_.push_back("--" + key.name + '=' +
                       path_or(key, joined(item, *item.value, key.separator)));
    }
  }

  std::string path_or(const ConfigKey& key, const std::string& text) const {
    if (!key.is_path) return text;
    return (file_.parent_path() / text).lexically_normal().string();
  }

  /// {name = "mlp", hidden = 64} -> "mlp:hidden=64".
  std::string spec(const Item& of, const toml::table& table, const ConfigKey& key) {
    std::string name;
    std::vector<std::string> params;
    for (const Item& item : in_order(table)) {
      const std::string text = joined(item, *item.value, key.item_separator);
      const bool is_name = item.key == "name";
      // These letters separate the parts of a spec, which knows no quotes.
      const std::string_view bad = is_name ? ":," : ",";
      if (text.find_first_of(bad) != std::string::npos || trim(text) != text)
        refuse(item.at,
               concat("value of \"", of.key, '.', item.key, "\""),
               is_name ? "no colon or comma in it, no blanks around it"
                       : "no comma in it, no blanks around it",
               text);
      if (is_name)
        name = text;
      else
        params.push_back(param_name(of, item) + '=' + text);
      if (!is_name)
        places_.push_back({.flag = key.name, .param = item.key, .place = place_of(item)});
    }
    if (name.empty()) refuse(of.at, concat("table [", of.key, "]"), "it has a text `name`");
    return params.empty() ? name : name + ':' + join(params, ",");
  }

  std::string param_name(const Item& of, const Item& item) const {
    if (!item.key.empty() &&
        item.key.find_first_of(std::string_view(",= \t\r\n\f\v\0", 9)) == std::string::npos)
      return item.key;
    refuse(item.at, concat("key \"", of.key, '.', item.key, "\""), "a name without , and =");
  }

  /// A value, or the values of an array with `separator` between them.
  std::string joined(const Item& item, const toml::node& node, char separator) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return scalar(item, node);
    std::vector<std::string> parts;
    for (const toml::node& element : *array) {
      parts.push_back(scalar(item, element));
      if (array->size() > 1 && parts.back().find(separator) != std::string::npos)
        refuse(item.at,
               concat("an item of \"", item.key, "\""),
               concat("no ", separator, " in it"),
               parts.back());
    }
    if (parts.empty())
      refuse(item.at, concat("key \"", item.key, "\""), "a list has one item at least");
    return join(parts, std::string(1, separator));
  }

  /// As it would be typed.
  std::string scalar(const Item& item, const toml::node& node) const {
    if (const auto text = node.value_exact<std::string>()) {
      if (text->empty() || text->find('\0') != std::string::npos)
        refuse(item.at,
               concat("key \"", item.key, "\""),
               "the text is not empty and has no zero byte",
               "",
               text->empty() ? "leave the key away" : "");
      return *text;
    }
    if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
    if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
    if (const auto number = node.value_exact<double>()) {
      const std::string text = shortest(*number);
      // 3.0 stays a float, so that a flag that counts refuses it.
      const bool looks_whole = text.find_first_not_of("-0123456789") == std::string::npos;
      return looks_whole ? text + ".0" : text;
    }
    refuse(item.at,
           concat("key \"", item.key, "\""),
           "it is a text, a number, true, false or a list of these");
  }

  const fs::path& file_;
  std::span<const ConfigKey> keys_;
  std::set<std::string> seen_;
  std::vector<std::string> words_;
  std::vector<ConfigPlace> places_;
};

/// "--lr=0.1" -> "lr"; "" if the word is no long flag.
std::string flag_in_file(const std::string& word) {
  if (!word.starts_with("--") || word == "--") return "";
  return flag_of(word.substr(2, word.find('=') - 2));
}

}  // namespace

Error placed(const Error& error,
             std::span<const ConfigPlace> places,
             std::span<const ConfigOwner> owners) {
  if (error.kind() != ErrorKind::kUsage) return error;
  ErrorText text = error.text();
  const std::string_view refused = text.refused;
  const auto begins = [&](const std::string& word) {
    if (!refused.starts_with(word)) return false;
    const std::string_view rest = refused.substr(word.size());
    return rest.empty() || !(std::isalnum(static_cast<unsigned char>(rest[0])) || rest[0] == '-');
  };
  const auto is_about = [&](const std::string& flag) {
    if (begins("--" + flag)) return true;
    return std::any_of(owners.begin(), owners.end(), [&](const ConfigOwner& owner) {
      const std::string kind(owner.kind);
      return owner.flag == flag && (begins(kind) || begins("unknown " + kind));
    });
  };
  const ConfigPlace* found = nullptr;
  for (const ConfigPlace& place : places) {
    if (!is_about(place.flag)) continue;
    const bool names_param =
        !place.param.empty() && refused.find('"' + place.param + '"') != std::string_view::npos;
    if (names_param || (place.param.empty() && found == nullptr)) found = &place;
  }
  if (found == nullptr) return error;
  text.refused = concat(found->place, ": ", text.refused);
  return {error.kind(), text};
}

std::vector<ConfigKey> config_keys(const CLI::App& app, const ConfigKinds& kinds) {
  const auto among = [](std::span<const std::string_view> names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<ConfigKey> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames()[0];
    if (name == "help" || name == "config") continue;
    const bool many = option->get_items_expected_max() > 1 && option->get_delimiter() == '\0';
    keys.push_back({.name = name,
                    .is_switch = option->get_items_expected_max() == 0,
                    .is_spec = among(kinds.specs, name),
                    .is_path = among(kinds.paths, name),
                    .separator = many                              ? '\0'
                                 : option->get_delimiter() != '\0' ? option->get_delimiter()
                                                                   : ','});
  }
  return keys;
}

std::vector<std::string> parse_config(std::string_view text,
                                      const fs::path& file,
                                      std::span<const ConfigKey> keys,
                                      std::vector<ConfigPlace>* places) {
  ConfigReader reader(file, keys);
  std::vector<std::string> words = reader.read(text);
  if (places != nullptr) *places = reader.take_places();
  return words;
}

std::vector<std::string> config_arguments(const fs::path& file,
                                          std::span<const ConfigKey> keys,
                                          std::vector<ConfigPlace>* places) {
  return parse_config(read_file(file), file, keys, places);
}

std::vector<std::string> with_config(std::span<const std::string> args,
                                     std::span<const ConfigKey> keys,
                                     std::vector<ConfigPlace>* places) {
  std::vector<std::string> rest;
  std::set<std::string> said;
  std::string file;
  size_t i = 0;
  for (; i < args.size() && args[i] != "--"; ++i) {
    const std::string name = flag_in_file(args[i]);
    if (name != "config") {
      said.insert(name);
      rest.push_back(args[i]);
      continue;
    }
    const size_t equals = args[i].find('=');
    std::string given;
    if (equals != std::string::npos) given = args[i].substr(equals + 1);
    if (equals == std::string::npos && i + 1 < args.size()) given = args[++i];
    if (given.empty() || given == "--")
      throw usage_error({.refused = "--config", .rule = "it names a TOML file"});
    if (!file.empty())
      throw usage_error({.refused = "--config " + given, .rule = "one config file is read"});
    file = given;
  }
  rest.insert(rest.end(), args.begin() + static_cast<ptrdiff_t>(i), args.end());
  if (file.empty()) return rest;
  std::vector<std::string> words;
  for (std::string& word : config_arguments(file, keys, places)) {
    if (!said.contains(flag_in_file(word))) words.push_back(std::move(word));
  }
  if (places != nullptr)
    std::erase_if(*places, [&](const ConfigPlace& place) { return said.contains(place.flag); });
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace muster::program
