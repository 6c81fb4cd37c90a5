// The corpus of messages from public issues (tests/diagnose/corpus), and logs of runs in which nothing
// failed (tests/diagnose/corpus/healthy).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/paths.h"

namespace muster::test {

struct CorpusEntry {
  std::string address;  ///< of the thread
  std::string row;      ///< the name of the row that is the first cause, or "none"
  std::string text;
};

/// "owner/name" of https://github.com/owner/name/issues/1, in small letters.
inline std::string repository_of(const std::string& address) {
  const std::vector<std::string> parts = split(address, '/');
  std::string name = parts.at(3) + "/" + parts.at(4);
  for (char& letter : name)
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  return name;
}

/// Where a repository belongs, by its name alone (FNV-1a, bit 32): true for the held-out part.
inline bool is_held_out(const std::string& repository) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : repository)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return (hash >> 32 & 1) != 0;
}

/// Entries of a part: an address, a row's name, and indented lines; '#' begins a comment.
inline std::vector<CorpusEntry> read_corpus(const std::string& part) {
  std::vector<CorpusEntry> entries;
  const std::string text = read_file(source_path("tests/diagnose/corpus/" + part + ".txt"));
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("    ")) {
      entries.back().text += line.substr(4) + '\n';
    } else if (line.starts_with("https://")) {
      entries.push_back({.address = line, .row = "", .text = ""});
    } else if (!line.empty() && line[0] != '#') {
      entries.back().row = line;
    }
  }
  return entries;
}

}  // namespace muster::test
