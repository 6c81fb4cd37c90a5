// `muster list`: what both executables share. The tables of torch rooms are printed by
// muster-torch, the rest by muster.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/program/screen/console.h"

namespace muster::cli {

/// A kind of strategy that can be listed.
struct ListKind {
  std::string_view name;
  std::string_view help;
  bool needs_torch;
};

/// All kinds, in alphabetical order.
std::span<const ListKind> list_kinds();

/// One entry of a table.
struct ListRow {
  std::string name;
  std::string help;
  std::string unavailable;  ///< why it cannot be used here; empty: it can
  std::span<const Param> params;
};

/// The rows of a generated table, whatever its entries carry beside name and help.
template <class Entry>
std::vector<ListRow> list_rows(const EntryTable<Entry>& table) {
  std::vector<ListRow> rows;
  for (const Entry* entry : table) {
    ListRow row{std::string(entry->name), std::string(entry->help), "", {}};
    if constexpr (requires { entry->available(); }) row.unavailable = entry->available();
    if constexpr (requires { row.params = entry->params; }) row.params = entry->params;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// What the user asked for.
struct ListRequest {
  std::string kind;  ///< empty: the kinds themselves
  bool json = false;
  bool names = false;
};

/// Parses the words behind `muster list`. Sets `done` to the exit code if help was printed. Throws
/// a usage error with a suggestion for an unknown kind or flag.
ListRequest parse_list(std::span<const std::string> args,
                       program::Console& console,
                       std::optional<int>& done);

/// To stdout: a table within 80 columns, names alone, or one JSON array of objects {"name", "help",
/// "available", "params"}.
void print_rows(std::span<const ListRow> rows,
                const ListRequest& request,
                program::Console& console);

}  // namespace muster::cli
