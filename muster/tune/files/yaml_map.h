// A map of a YAML file that is read key by key: each error names file, line and column, and what
// was never asked for is refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "muster/tune/space/value.h"

namespace muster::tune {

[[noreturn]] void refuse_yaml(const std::filesystem::path& file,
                              const YAML::Node& at,
                              std::string refused,
                              std::string rule = "",
                              std::string value = "",
                              std::string hint = "");

/// A plain or quoted scalar as PyYAML understands it, but for 1e-3, which is a number here and a
/// text there. Refuses lists, maps, null, and plain numbers that only YAML 1.1 reads (1_000, 0x1F,
/// 010, 1:30).
Value yaml_value(const std::filesystem::path& file, const YAML::Node& node, std::string_view what);

class YamlMap {
 public:
  /// Throws a usage error if `node` is no map, or one with a key twice. `name` as "parameters.lr".
  YamlMap(const std::filesystem::path& file, const YAML::Node& node, std::string name);

  // Each answers nothing if the key is not there, and throws a usage error if it is of another
  // type.
  std::optional<Value> value(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<double> number(std::string_view key);
  std::optional<int64_t> whole(std::string_view key, int64_t least);
  std::optional<std::vector<Value>> values(std::string_view key);  ///< a list with an item
  std::optional<YamlMap> map(std::string_view key);
  std::optional<YAML::Node> find(std::string_view key);

  struct Item {
    std::string key;
    YAML::Node key_node, node;
  };
  const std::vector<Item>& items() const { return items_; }
  const std::string& name() const { return name_; }

  /// Refuses the first key that was not asked for by any call above, with the nearest that was.
  void refuse_unknown() const;
  [[noreturn]] void refuse(std::string_view key,
                           std::string rule,
                           std::string value = "",
                           std::string hint = "") const;
  /// The map itself.
  [[noreturn]] void refuse_all(std::string rule, std::string hint = "") const;

 private:
  std::string full_name(std::string_view key) const;

  const std::filesystem::path* file_;
  YAML::Node node_;
  std::string name_;
  std::vector<Item> items_;
  std::vector<std::string> known_;
};

}  // namespace muster::tune
