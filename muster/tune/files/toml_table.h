// A table of a TOML file that is read key by key: each error names file, line and column, and what
// was never asked for is refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/toml.h"
#include "muster/tune/space/value.h"

namespace muster::tune {

/// "FILE:LINE:COL".
std::string place_of(const std::filesystem::path& file, toml::source_position at);

/// Throws a usage error with the place of what is no TOML.
toml::table parse_toml(std::string_view text, const std::filesystem::path& file);

/// An entry of a table.
struct TomlItem {
  std::string key;
  const toml::node* node;
  toml::source_position at;  ///< of the key
};

/// The entries in the order of the file; toml++ sorts them by name.
std::vector<TomlItem> in_order(const toml::table& table);

class TomlTable {
 public:
  /// `name` is the table's ("searcher"), empty for the whole file, which begins at 1:1; `at` is where
  /// the table stands. Views `file` and `table`.
  TomlTable(const std::filesystem::path& file,
            const toml::table& table,
            std::string name,
            toml::source_position at = {1, 1});

  // Each answers nothing if the key is not there, and throws a usage error if it is of another
  // type.
  std::optional<std::string> text(std::string_view key);
  std::optional<int64_t> whole(std::string_view key, int64_t least);
  std::optional<double> number(std::string_view key, double least);
  std::optional<bool> truth(std::string_view key);
  std::optional<TomlTable> table(std::string_view key);
  const toml::array* list(std::string_view key);
  std::vector<std::string> texts(std::string_view key);  ///< a list of texts; empty: not there
  /// `KEY = "1h30m"` or `KEY_s = 5400`, not both.
  std::optional<double> duration_s(const std::string& key);

  /// The entry, whatever it is, or null.
  const TomlItem* find(std::string_view key);
  std::vector<TomlItem> items() const { return items_; }

  /// Refuses the first key that was not asked for by any call above, with the nearest that was.
  void refuse_unknown() const;

  [[noreturn]] void refuse(const TomlItem& item,
                           std::string rule,
                           std::string value = "",
                           std::string hint = "") const;
  /// At the place of the table if the key is not there.
  [[noreturn]] void refuse(std::string_view key,
                           std::string rule,
                           std::string value = "",
                           std::string hint = "");

  /// True, a number or a text; anything else is refused as item's.
  Value scalar(const TomlItem& item, const toml::node& node) const;

  std::string place(const TomlItem& item) const { return place_of(*file_, item.at); }
  /// Of the table itself.
  std::string place() const { return place_of(*file_, at_); }
  const std::string& name() const { return name_; }

 private:
  std::string full_name(std::string_view key) const;

  const std::filesystem::path* file_;
  std::string name_;
  toml::source_position at_;
  std::vector<TomlItem> items_;
  std::vector<std::string> known_;
};

}  // namespace muster::tune
