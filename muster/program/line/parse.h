// The command line of one command: CLI11 with our help layout (80 columns, examples) and
// suggestions for unknown flags.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "muster/program/line/value.h"
#include "muster/program/screen/console.h"

namespace muster::program {

/// An App with our formatter, called `title`: "muster train". `examples` is shown below the options as it
/// stands; `usage` replaces CLI11's own usage line.
std::unique_ptr<CLI::App> make_app(const std::string& title,
                                   const std::string& description,
                                   const std::string& examples,
                                   const std::string& usage = "");

/// Parses `args`. An exit code if the command is over: 0 after --help (printed to stdout), and after
/// kDescribe alone, which prints the command as JSON, see command_text.h. Throws a usage error for a
/// wrong command line, with the nearest flag as hint.
std::optional<int> parse(CLI::App& app, std::span<const std::string> args, Console& console);

/// A command line that ends in another program's: `muster run [FLAGS] [--] PROGRAM ARGS`.
struct ProgramLine {
  std::vector<std::string> flags;    ///< ours, for `parse`
  std::vector<std::string> program;  ///< the program and its arguments, untouched
};

/// Splits at `--`, or else at the first word that is neither a flag of `app` nor the value of one.
/// In our part underscores of flag names become hyphens, since torchrun takes both:
/// --nproc_per_node.
ProgramLine split_program(const CLI::App& app, std::span<const std::string> args);

}  // namespace muster::program
