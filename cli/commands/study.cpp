// `muster study`: looks at stored studies, and reaches those that run.
#include <algorithm>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/text.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

constexpr std::string_view kStudyExamples =
    "\nExamples:\n"
    "  muster study list fashion.db\n"
    "  muster study show fashion.db --study fashion\n"
    "  muster study watch fashion.db\n"
    "  muster study best fashion.db --json\n"
    "  muster study export fashion.db --format csv --output trials.csv\n"
    "  muster study plot fashion.db\n"
    "\n"
    "`muster study CMD --help` tells all of a command. STORAGE is the file that\n"
    "`muster tune` writes; Optuna and its dashboard open the same file.\n";

void print_overview(std::ostream& out) {
  out << "Usage: muster study CMD STORAGE [OPTIONS]\n\nCommands:\n";
  for (const StudyCommand& command : study_commands()) {
    out << "  " << command.name << std::string(12 - std::min<size_t>(11, command.name.size()), ' ')
        << command.help << '\n';
  }
  out << kStudyExamples;
}

const StudyCommand& command_named(const std::string& name) {
  const auto commands = study_commands();
  const auto found = std::ranges::find(commands, name, &StudyCommand::name);
  if (found != commands.end()) return *found;
  std::vector<std::string> names;
  for (const StudyCommand& command : commands) names.emplace_back(command.name);
  throw usage_error({.refused = concat("muster study has no command \"", name, "\""),
                     .hint = suggestion(name, names)});
}

int run_study_command(std::span<const std::string> args, program::Console& console) {
  if (args.empty()) {
    print_overview(console.err());
    return kWrongUse;
  }
  if (args[0] == "--help" || args[0] == "-h") {
    print_overview(console.out());
    return kDone;
  }
  return command_named(args[0]).run(args.subspan(1), console);
}

}  // namespace

extern constinit const CommandEntry study_entry{
    "study", "stored studies: list, show, best, export, ask, tell, restart, …", &run_study_command};

}  // namespace muster::cli
