// The half of a torch command that needs no LibTorch.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/program/line/command_text.h"
#include "muster/program/line/parse.h"

namespace muster::cli {

/// Answers --help and kDescribe; nothing if the command itself is meant.
inline std::optional<int> help_only(CLI::App& app,
                                    std::span<const std::string> args,
                                    program::Console& console) {
  const std::vector<std::string> help{"--help"};
  for (const std::string& word : args) {
    if (word == "--help" || word == "-h") return program::parse(app, help, console);
  }
  if (args.size() == 1 && args[0] == program::kDescribe) return program::parse(app, args, console);
  return std::nullopt;
}

}  // namespace muster::cli
