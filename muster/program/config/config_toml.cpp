// The way back: words of a command line as TOML.
#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/program/config/config_file.h"

namespace muster::program {
namespace {

/// A TOML basic string: JSON's escapes are TOML's, but TOML wants DEL escaped as well.
std::string quoted(const std::string& text) {
  std::string out;
  try {
    for (const char c : Json(text).dump()) {
      if (c == '\x7f')
        out += "\\u007F";
      else
        out += c;
    }
  } catch (const Json::type_error&) {
    throw usage_error({.refused = "a value for a config file",
                       .rule = "TOML is UTF-8",
                       .value = json_text(Json(text))});
  }
  return out;
}

/// A number without quotes if it reads back as the very same text.
std::string flag_value(const std::string& text) {
  const auto whole = to_int(text);
  if (whole && std::to_string(*whole) == text) return text;
  const auto number = to_double(text);
  // Only plain digits and a point: TOML's floats are a part of what to_double takes.
  const bool plain = text.find_first_not_of("-0123456789.") == std::string::npos &&
                     text.find('.') != std::string::npos;
  if (number && plain && text.front() != '.' && text.back() != '.' && !text.starts_with("-.")) {
    const std::string again = shortest(*number);
    if (again == text || again + ".0" == text) return text;
  }
  return quoted(text);
}

std::string bare_or_quoted_key(const std::string& key) {
  const bool bare = !key.empty() && key.find_first_not_of(
                                        "abcdefghijklmnopqrstuvwxyz"
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789_-") == std::string::npos;
  return bare ? key : quoted(key);
}

struct Given {
  const ConfigKey* key;
  std::vector<std::string> values;
};

/// The flags and their values, in the order of their first mention.
std::vector<Given> flags_in(std::span<const std::string> args, std::span<const ConfigKey> keys) {
  std::vector<Given> given;
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    const ConfigKey* found = nullptr;
    for (const ConfigKey& key : keys) {
      if (args[i].substr(0, equals) == "--" + key.name) found = &key;
    }
    const bool apart = found && !found->is_switch && equals == std::string::npos;
    if (!found || (apart && i + 1 == args.size()) ||
        (found->is_switch && equals != std::string::npos)) {
      throw usage_error({.refused = "cannot write \"" + args[i] + "\" into a config file",
                         .rule = "each word is a flag of the command, with its value"});
    }
    auto at = std::find_if(
        given.begin(), given.end(), [&](const Given& one) { return one.key == found; });
    if (at == given.end()) at = given.insert(given.end(), {found, {}});
    if (found->separator != '\0' && !found->is_switch) at->values.clear();  // the last one counts
    if (!found->is_switch) at->values.push_back(apart ? args[++i] : args[i].substr(equals + 1));
  }
  return given;
}

std::string flag_line(const Given& flag) {
  const auto value = [&](const std::string& text) {
    if (!flag.key->is_path) return flag_value(text);
    return quoted(std::filesystem::absolute(text).lexically_normal().string());
  };
  std::string out = flag.key->name + " = ";
  if (flag.key->is_switch) return out + "true\n";
  if (flag.key->separator != '\0') return out + value(flag.values.back()) + '\n';
  std::vector<std::string> items;
  for (const std::string& text : flag.values) items.push_back(value(text));
  return out + '[' + join(items, ", ") + "]\n";
}

/// The parameters of a spec in the order of its text; nothing if they and the text are not the same.
std::optional<std::vector<std::pair<std::string, std::string>>> params_in_order(
    const Spec& spec, const std::string& text) {
  std::vector<std::pair<std::string, std::string>> params(spec.params.begin(), spec.params.end());
  const auto place = [&](const auto& param) {
    const std::string said = param.first + '=' + param.second;
    return std::min(text.find(':' + said), text.find(',' + said));
  };
  std::ranges::stable_sort(params, {}, place);
  std::vector<std::string> parts;
  for (const auto& [key, value] : params) parts.push_back(concat(key, '=', value));
  if (concat(spec.name, ':', join(parts, ",")) != text) return std::nullopt;  // blanks, for one
  return params;
}

/// A table knows no commas, and its `name` is the strategy's.
bool fits_into_table(const std::string& key, const std::string& value) {
  return key != "name" && key.find_first_of(" \t\r\n\f\v") == std::string::npos && !value.empty() &&
         value.find(',') == std::string::npos;
}

/// "mlp:hidden=64" -> its table, or nothing if it is not quite of that form.
std::string table_of(const Given& flag) {
  const std::string& text = flag.values.back();
  Spec spec;
  try {
    spec = parse_spec(text);
  } catch (const Error&) {
    return "";  // whoever takes the flag refuses it
  }
  if (spec.name.empty() || spec.params.empty() || trim(spec.name) != spec.name ||
      spec.name.find(',') != std::string::npos)
    return "";
  const std::string& name = spec.name;
  const auto params = params_in_order(spec, text);
  if (!params) return "";
  std::string out = "\n[" + flag.key->name + "]\nname = " + quoted(name) + '\n';
  for (const auto& [key, value] : *params) {
    if (!fits_into_table(key, value)) return "";
    out += bare_or_quoted_key(key) + " = " +
           (value == "true" || value == "false" ? value : flag_value(value)) + '\n';
  }
  return out;
}

}  // namespace

std::string config_toml(std::span<const std::string> args, std::span<const ConfigKey> keys) {
  std::string lines, tables;
  for (const Given& flag : flags_in(args, keys)) {
    const std::string table = flag.key->is_spec ? table_of(flag) : "";
    (table.empty() ? lines : tables) += table.empty() ? flag_line(flag) : table;
  }
  return lines + tables;
}

void write_config_toml(const std::filesystem::path& file,
                       std::span<const std::string> args,
                       std::span<const ConfigKey> keys) {
  write_file_atomic(file, config_toml(args, keys));
}

}  // namespace muster::program
