// What a command takes, as data: for the completions of shells, manual pages, and tests. Every
// command answers to the one word kDescribe with it, as JSON on stdout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"

namespace CLI {
class App;
}

namespace muster::program {

inline constexpr std::string_view kDescribe = "--describe";

struct OptionText {
  std::vector<std::string> flags;  ///< "--epochs"; "-h", "--help"; none of a positional
  std::string value;               ///< "N", "FILE"; empty: a switch
  std::string help;                ///< with the default in brackets
};

struct CommandText {
  std::string name;   ///< "train", "study list"
  std::string help;   ///< the line of the overview
  std::string about;  ///< a paragraph
  std::string usage;  ///< "muster train [OPTIONS]"
  std::vector<OptionText> options;
  std::string footer;  ///< examples and the like, with their line ends
};

/// `help` stays empty: the overview knows it.
CommandText command_text_of(const CLI::App& app);

Json to_json(const CommandText& command);
CommandText command_text(const Json& json);

}  // namespace muster::program
