// A JSON object of a tokenizer file that must be understood to the last key.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::text {

/// Sorted: the vocabulary is one object of 10^5 keys, in which Json, which keeps their order, would
/// look for each by going through all.
using FileJson = nlohmann::json;

/// Every key is asked for, or `end` refuses it: nothing in a file is passed over in silence. All
/// errors are environment errors that name the file and the path of the value: "tokenizer.json:
/// model.merges[3]".
class Section {
 public:
  Section(const FileJson& json, std::string where);

  const std::string& where() const { return where_; }

  /// A key that must be there, or nullptr for one that need not and is missing or null.
  const FileJson& need(const char* key);
  const FileJson* find(const char* key);

  std::string text(const char* key);
  std::optional<std::string> optional_text(const char* key);
  bool boolean(const char* key, std::optional<bool> otherwise = {});
  uint32_t number(const char* key, std::optional<uint32_t> otherwise = {});
  /// One code point.
  char32_t letter(const char* key);

  Section section(const char* key) { return Section(need(key), path_of(key)); }
  std::string path_of(const char* key) const { return where_ + "." + key; }

  /// Throws if a key was not asked for.
  void end() const;

  [[noreturn]] void refuse(const char* key, std::string rule, std::string value = {}) const;

 private:
  const FileJson& json_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

/// Throws unless the value is what it should be; `where` is its path.
const std::string& text_of(const FileJson& json, const std::string& where);
uint32_t number_of(const FileJson& json, const std::string& where);
[[noreturn]] void refuse_value(const std::string& where, std::string rule, std::string value = {});

/// The whole file: not JSON, a key twice, nested too deeply are environment errors.
FileJson parse_tokenizer_file(std::string_view text, std::string_view name);

}  // namespace muster::text
