// A config file is refused by one usage error, or its words are flags of the command, and written
// as a config they are read back as the same.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/program/config/config_file.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

using Words = std::vector<std::string>;

const std::vector<program::ConfigKey>& keys() {
  static const std::vector<program::ConfigKey> all = {{.name = "epochs"},
                                                      {.name = "lr"},
                                                      {.name = "model", .is_spec = true},
                                                      {.name = "schedule", .is_spec = true},
                                                      {.name = "data-dir", .is_path = true},
                                                      {.name = "tag", .separator = '\0'},
                                                      {.name = "top-k"},
                                                      {.name = "json", .is_switch = true}};
  return all;
}

/// Grouped by flag, repeated flags in their order, paths absolute: as the writer puts them.
Words normal(Words words) {
  constexpr std::string_view kPath = "--data-dir=";
  for (std::string& word : words) {
    if (!word.starts_with(kPath)) continue;
    const auto path = std::filesystem::absolute(word.substr(kPath.size())).lexically_normal();
    word = std::string(kPath) + path.string();
  }
  std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
    return a.substr(0, a.find('=')) < b.substr(0, b.find('='));
  });
  return words;
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  fuzz::Words words;
  try {
    words = program::parse_config(fuzz::text_of(data, size), "folder/fuzz.toml", fuzz::keys());
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    fuzz::require(std::string(error.what()).starts_with("folder/fuzz.toml:"), "the place is named");
    return 0;
  }
  for (const std::string& word : words) {
    fuzz::require(word.starts_with("--"), "each word is a flag");
    fuzz::require(word.find('\0') == std::string::npos, "a word can be an argument");
  }
  const std::string toml = program::config_toml(words, fuzz::keys());
  fuzz::require(fuzz::normal(program::parse_config(toml, "folder/again.toml", fuzz::keys())) ==
                    fuzz::normal(words),
                "what was written reads back");
  return 0;
}
