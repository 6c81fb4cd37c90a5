// `muster new`: a small project to begin from.
#include <filesystem>

#include "muster/base/text.h"

#include "cli/command.h"
#include "cli/line/app.h"
#include "cli/project/new_project.h"

namespace muster::cli {
namespace {

constexpr const char* kNewExamples =
    "Examples:\n"
    "  muster new rows --task regress\n"
    "  muster new ~/src/my-training --task own\n\n"
    "Writes CMakeLists.txt, main.cpp, README.md and .gitignore. The program has the\n"
    "flags of `muster train` that are not about its models and data; README.md tells\n"
    "how to build, test, train on several ranks, resume and tune it.\n\n"
    "Exit codes: 0 written, 1 failed, 2 wrong use; then there is no folder.";

int run_new_command(std::span<const std::string> args, program::Console& console) {
  std::filesystem::path folder;
  std::string task = "classify";
  const auto app =
      make_app("new",
               "Write a small project that trains a task of your own: it builds against "
               "an installed Muster, and trains as it is.",
               kNewExamples,
               "muster new DIR [--task TASK]");
  program::add_value(
      *app, "folder", folder, "the project's folder, which is named as its program will be")
      ->type_name("DIR")
      ->required();
  program::add_value(
      *app, "--task", task, "rows to classes, rows to a number, or a task of your own")
      ->type_name("classify|regress|own")
      ->capture_default_str();
  if (const auto over = program::parse(*app, args, console)) return *over;
  write_project(folder, task);
  console.note(concat("project in ",
                      folder.string(),
                      "; ",
                      (folder / "README.md").string(),
                      " says how to build and train it"));
  return kDone;
}

}  // namespace

extern constinit const CommandEntry new_entry{
    "new", "write a small project that trains a task of your own", &run_new_command};

}  // namespace muster::cli
