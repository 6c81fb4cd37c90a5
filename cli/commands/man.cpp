// `muster man`: manual pages, printed or written into a folder.
#include <filesystem>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/base/version.h"

#include "cli/command.h"
#include "cli/describe/describe_all.h"
#include "cli/describe/man_page.h"
#include "cli/line/app.h"
#include "cli/overview.h"

namespace muster::cli {
namespace {

constexpr const char* kManExamples =
    "Examples:\n"
    "  muster man train | man -l -\n"
    "  muster man --output ~/.local/share/man/man1\n"
    "\n"
    "An installed Muster has put them where `man muster-train` looks.";

int run_man_command(std::span<const std::string> args, program::Console& console) {
  std::string command;
  std::filesystem::path output;
  const auto app = make_app("man",
                            "Print the manual page of a command, or write all of them.",
                            kManExamples,
                            "muster man [COMMAND] [--output DIR]");
  program::add_value(*app, "command", command, "a command; without one the page muster(1)")
      ->type_name("COMMAND");
  program::add_value(*app, "--output", output, "write all pages into this folder")
      ->type_name("DIR");
  if (const auto done = program::parse(*app, args, console)) return *done;
  if (!command.empty()) commands().at(command);  // or refused with a suggestion
  const auto pages = man_pages(describe_all(commands()), version(), kMainExamples);
  if (output.empty()) {
    const std::string name = command.empty() ? "muster" : "muster-" + command;
    for (const ManPage& page : pages) {
      if (page.name == name) console.out() << page.roff << std::flush;
    }
    return kDone;
  }
  make_writable_folder(output, "folder of manual pages");
  for (const ManPage& page : pages) write_file_atomic(output / (page.name + ".1"), page.roff);
  console.note(concat(pages.size(), " pages in ", output.string()));
  return kDone;
}

}  // namespace

extern constinit const CommandEntry man_entry{
    "man", "print a manual page, or write all of them", &run_man_command};

}  // namespace muster::cli
