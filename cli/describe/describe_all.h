// What every command of the program takes, as data: for completions and manual pages.
#pragma once

#include <string>
#include <vector>

#include "muster/program/line/command_text.h"

#include "cli/command.h"

namespace muster::cli {

/// Every command of `table`, and behind `study` its own ones. The entry `study` has no options.
std::vector<program::CommandText> describe_all(const EntryTable<CommandEntry>& table);

/// The kind of `muster list` whose names are values of the option: "models" for --model; or "".
std::string kind_of_names(const program::OptionText& option);

}  // namespace muster::cli
