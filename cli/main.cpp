// The start of both executables. `muster` holds the torch-free commands and starts in milliseconds;
// `muster-torch`, its sibling, holds those that need LibTorch and is started by exec. The
// difference is the generated table, not this file.
#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <signal.h>

#include "muster/base/error.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/program/end_process.h"
#include "muster/program/rank_failure.h"
#include "muster/program/screen/console.h"

#include "cli/command.h"
#include "cli/overview.h"

namespace muster::cli {
namespace {

constexpr std::string_view kIntro =
    "muster: train one model on many devices, in C++ on LibTorch.\n\n"
    "Usage: muster COMMAND [OPTIONS]\n\nCommands:\n";

void print_overview(std::ostream& out) {
  out << kIntro;
  size_t column = 0;
  for (const CommandEntry* command : commands()) column = std::max(column, command->name.size());
  for (const CommandEntry* command : commands()) {
    out << "  " << command->name << std::string(column + 2 - command->name.size(), ' ')
        << command->help << '\n';
  }
  out << kMainExamples;
}

/// `muster help train` as `muster train --help`, `muster help study show` as `muster study show
/// --help`.
int run_help(std::vector<std::string> words, program::Console& console) {
  const std::string command = words[0];
  words.erase(words.begin());
  words.emplace_back("--help");
  return commands().at(command).run(words, console);
}

int run(const std::vector<std::string>& args, program::Console& console) {
  if (args.empty()) {
    print_overview(console.err());
    return kWrongUse;
  }
  if (args[0] == "help" && args.size() > 1 && args[1] != "--help" && args[1] != "-h")
    return run_help({args.begin() + 1, args.end()}, console);
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    print_overview(console.out());
    return kDone;
  }
  if (args[0] == "--version") {
    console.out() << "muster " << version() << '\n';
    return kDone;
  }
  if (args[0].starts_with("-")) {
    throw usage_error({.refused = "unknown flag " + args[0],
                       .rule = "a command comes first",
                       .hint = "see `muster --help`"});
  }
  return commands().at(args[0]).run(std::span(args).subspan(1), console);
}

/// A file that may grow no further (ulimit -f) is an error of the write, as a full disk is, not the end without a word.
/// By a handler: programs that are started have what they would have.
void survive_full_files() {
  struct sigaction before {};
  if (::sigaction(SIGXFSZ, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

/// Of the commands only these are ranks: a rank's script that calls another one passes its
/// environment on.
void note_end(const std::vector<std::string>& args, const char* why) {
  constexpr std::array<std::string_view, 3> kRanks = {"train", "evaluate", "predict"};
  if (args.empty() || std::ranges::find(kRanks, args[0]) == kRanks.end()) return;
  program::note_rank_failure(why);
}

/// All that main() does but the end: nothing of it is left when this returns.
int run_program(int argc, char** argv) {
  survive_full_files();
  program::Console console = program::Console::of_process();
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto own_end = std::ranges::find(args, "--");  // behind it stands another program's line
  console.set_json_errors(std::find(args.begin(), own_end, "--json") != own_end);
  try {
    const int code = run(args, console);
    console.finish_out();
    return code;
  } catch (const Error& error) {
    note_end(args, error.what());
    console.error(error);
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    const Error told = file_system_error(error);
    note_end(args, told.what());
    console.error(told);
    return told.exit_code();
  } catch (const std::exception& error) {
    note_end(args, error.what());
    console.error(error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::program::end_process(muster::cli::run_program(argc, argv));
}
