// The start of both executables. `muster` holds the torch-free commands and starts in milliseconds;
// `muster-torch`, its sibling, holds those that need LibTorch and is started by exec. The
// difference is the generated table, not this file.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"

#include "cli/command.h"
#include "cli/console.h"

namespace muster::cli {
namespace {

constexpr std::string_view kIntro =
    "muster: train one model on many devices, in C++ on LibTorch.\n\n"
    "Usage: muster COMMAND [OPTIONS]\n\nCommands:\n";
constexpr std::string_view kMainExamples =
    "\nExamples:\n"
    "  muster run --nproc-per-node 2 -- muster train --model cnn --data fashion-mnist\n"
    "  muster train --model mlp --data fashion-mnist --epochs 3\n"
    "  muster run --nproc-per-node 4 -- ./my_program --its-own-flags\n"
    "  muster list models\n\n"
    "`muster COMMAND --help` tells all of a command.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted with state saved.\n";

void print_overview(std::ostream& out) {
  out << kIntro;
  for (const CommandEntry* command : commands()) {
    out << "  " << command->name << std::string(10 - std::min<size_t>(9, command->name.size()), ' ')
        << command->help << '\n';
  }
  out << kMainExamples;
}

int run(const std::vector<std::string>& args, Console& console) {
  if (args.empty()) {
    print_overview(console.err());
    return kWrongUse;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    print_overview(console.out());
    return kDone;
  }
  if (args[0] == "--version") {
    console.out() << "muster " << MUSTER_VERSION << '\n';
    return kDone;
  }
  if (args[0].starts_with("-")) {
    throw usage_error({.refused = "unknown flag " + args[0],
                       .rule = "a command comes first",
                       .hint = "see `muster --help`"});
  }
  return commands().at(args[0]).run(std::span(args).subspan(1), console);
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::cli::Console console = muster::cli::Console::of_process();
  try {
    return muster::cli::run({argv + 1, argv + argc}, console);
  } catch (const muster::Error& error) {
    muster::diagnose::note_failure(error.what());  // of a rank; see Note [Who was first]
    console.error(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    muster::diagnose::note_failure(error.what());
    console.error(error.what());
    return muster::cli::kFailed;
  }
}
