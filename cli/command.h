// A command of the program. One file of cli/commands/ (muster) or cli/torch/commands/
// (muster-torch) adds one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "muster/base/entry.h"
#include "muster/program/screen/console.h"

namespace muster::cli {

/// Exit codes of the program; errors carry their own (Error::exit_code).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kInterrupted = 130;

struct CommandEntry {
  static constexpr std::string_view kKind = "command";
  std::string_view name;
  std::string_view help;  ///< one line, for `muster --help`
  /// `args` are the words behind the command's name. Returns the exit code; throws muster::Error,
  /// which main prints.
  int (*run)(std::span<const std::string> args, program::Console& console);
};

/// The commands of this executable (generated; see Note [Generated tables]).
EntryTable<CommandEntry> commands();

}  // namespace muster::cli
