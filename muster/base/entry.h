// Tables of strategies. One file adds one strategy; see Note [Generated tables].
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {

// Note [Generated tables]
// A strategy (a model, a dataset, a process-group backend, a launcher, a command, …) is a file of
// its own that ends in one constant named after the file: `extern constinit const ModelEntry
// lenet_entry{…}` in models/zoo/lenet.cpp. CMake globs the folder (cmake/Entries.cmake) and writes
// a source that names every constant as extern; a constant that does not match its file is a link
// error that names it. Self-registering statics would be dropped by the linker from static
// libraries, and hand-kept lists rot. An entry type has `name`, `help` and a static `kKind` for
// messages.

/// A read-only view of the generated table of one kind. Ordered by file name. Any thread.
template <class Entry>
class EntryTable {
 public:
  constexpr explicit EntryTable(std::span<const Entry* const> entries) : entries_(entries) {}

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }

  /// The entry of that name, or null.
  const Entry* find(std::string_view name) const {
    for (const Entry* entry : entries_) {
      if (entry->name == name) return entry;
    }
    return nullptr;
  }

  /// The entry of that name. Throws a usage error with a suggestion.
  const Entry& at(std::string_view name) const {
    if (const Entry* entry = find(name)) return *entry;
    throw usage_error({.refused = concat("unknown ", Entry::kKind, " \"", name, "\""),
                       .hint = suggestion(name, names())});
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Entry* entry : entries_) out.emplace_back(entry->name);
    return out;
  }

 private:
  std::span<const Entry* const> entries_;
};

}  // namespace muster
