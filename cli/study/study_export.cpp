// `muster study export` and `stop`.
#include <filesystem>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/tune/views/export.h"
#include "muster/tune/views/ray_files.h"
#include "muster/tune/views/tensorboard_trials.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

struct Format {
  std::string_view name;
  bool is_folder;  ///< writes several files, below --output
};
constexpr Format kFormats[] = {
    {"csv", false}, {"json", false}, {"tensorboard", true}, {"ray", true}};

const Format& format_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw usage_error(
      {.refused = concat("unknown format \"", name, "\""), .hint = suggestion(name, names)});
}

/// The study itself is not written over.
void check_output(const std::filesystem::path& output, const StudyFlags& flags) {
  std::error_code none;
  if (output.empty() || !std::filesystem::equivalent(output, flags.storage, none)) return;
  throw usage_error({.refused = concat("--output ", output.string()),
                     .rule = "it is not what is exported",
                     .value = concat("the study in ", flags.storage.string()),
                     .hint = "another name, as trials.csv"});
}

void write_folder(const Format& format,
                  const StoredStudy& study,
                  const std::filesystem::path& output) {
  if (output.empty()) {
    throw usage_error({.refused = concat("--format ", format.name, " without --output"),
                       .rule = "it writes a folder",
                       .hint = "--output FOLDER"});
  }
  if (format.name == "ray") {
    tune::write_ray_files(output, study.trials, study.facts);
  } else {
    tune::write_tensorboard(output, study.trials, study.facts);
  }
}

void write_text(const std::string& text,
                const std::filesystem::path& output,
                program::Console& console) {
  if (output.empty()) {
    console.out() << text;
  } else {
    write_file_atomic(output, text);
  }
}

}  // namespace

int study_export(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("export",
                             "All trials of a study for another program.",
                             "Examples:\n  muster study export fashion.db > trials.csv\n"
                             "  muster study export fashion.db --format json --output trials.json\n"
                             "  muster study export fashion.db --format tensorboard --output tb\n"
                             "  muster study export fashion.db --format ray --output ray_results\n",
                             flags);
  std::string format_name = "csv";
  std::filesystem::path output;
  program::add_value(*app,
                     "--format",
                     format_name,
                     "json: one file, with all reports; tensorboard: events of each trial, with "
                     "hyperparameters; ray: params.json, result.json, progress.csv of each trial")
      ->type_name("csv|json|tensorboard|ray")
      ->capture_default_str();
  program::add_value(*app, "--output", output, "file or folder; a file goes to stdout without it")
      ->type_name("PATH");
  if (const auto done = program::parse(*app, args, console)) return *done;
  const Format& format = format_named(flags.json ? "json" : format_name);
  const StoredStudy study = read_study(flags);
  check_output(output, flags);
  if (format.is_folder) {
    write_folder(format, study, output);
  } else if (format.name == "csv") {
    write_text(tune::to_csv(study.trials, study.facts), output, console);
  } else {
    write_text(json_text(to_json(study.trials, study.facts), 2) + '\n', output, console);
  }
  if (!output.empty())
    console.note(concat(trials_text(study.trials.size()), " in ", output.string()));
  return kDone;
}

}  // namespace muster::cli
