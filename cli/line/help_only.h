// The half of a torch command that needs no LibTorch.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/line/command_text.h"
#include "cli/line/parse.h"

namespace muster::cli {

/// Answers --help and kDescribe; nothing if the command itself is meant.
inline std::optional<int> help_only(CLI::App& app,
                                    std::span<const std::string> args,
                                    Console& console) {
  const std::vector<std::string> help{"--help"};
  for (const std::string& word : args) {
    if (word == "--help" || word == "-h") return parse(app, help, console);
  }
  if (args.size() == 1 && args[0] == kDescribe) return parse(app, args, console);
  return std::nullopt;
}

}  // namespace muster::cli
