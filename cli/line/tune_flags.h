// The command line of `muster tune`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "muster/program/screen/console.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/views/status_view.h"

namespace muster::cli {

struct TuneFlags {
  tune::StudySpec spec;  ///< of the file, with what the command line says instead
  std::string executor = "local";
  tune::StatusOptions status;
  std::optional<int64_t> dry_run;  ///< print so many configurations and stop
  bool explain = false;            ///< say what searcher and scheduler do, and stop
  bool json = false;
};

/// Where trials of a study have their files unless its study file says so: beside the storage,
/// STEM-trials/STUDY.
std::filesystem::path trial_folder_of(const std::filesystem::path& storage,
                                      const std::string& study);

/// An exit code if the command is over (--help). Throws a usage error for a wrong command line or
/// study file.
std::optional<int> parse_tune_flags(std::span<const std::string> args,
                                    program::Console& console,
                                    TuneFlags& flags);

/// The study that a file alone describes, with `storage` instead of its own unless that is empty;
/// for commands that run no trial, so a command need not be there. Throws a usage error.
tune::StudySpec study_of_file(const std::string& file, const std::string& storage);

}  // namespace muster::cli
