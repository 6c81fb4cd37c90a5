// `muster study CMD STORAGE`: the commands below it, and what they share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "muster/program/screen/console.h"
#include "muster/tune/run/study.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/history.h"

namespace muster::cli {

struct StudyCommand {
  std::string_view name;
  std::string_view help;  ///< one line, for `muster study --help`
  int (*run)(std::span<const std::string> args,
             program::Console& console);  ///< as CommandEntry::run
};

/// The commands, in the order of the help.
std::span<const StudyCommand> study_commands();

int study_list(std::span<const std::string> args, program::Console& console);
int study_show(std::span<const std::string> args, program::Console& console);
int study_watch(std::span<const std::string> args, program::Console& console);
int study_best(std::span<const std::string> args, program::Console& console);
int study_importance(std::span<const std::string> args, program::Console& console);
int study_export(std::span<const std::string> args, program::Console& console);
int study_plot(std::span<const std::string> args, program::Console& console);
int study_ask(std::span<const std::string> args, program::Console& console);
int study_tell(std::span<const std::string> args, program::Console& console);
int study_stop(std::span<const std::string> args, program::Console& console);
int study_pause(std::span<const std::string> args, program::Console& console);
int study_continue(std::span<const std::string> args, program::Console& console);
int study_add(std::span<const std::string> args, program::Console& console);
int study_restart(std::span<const std::string> args, program::Console& console);
int study_prune(std::span<const std::string> args, program::Console& console);
int study_delete(std::span<const std::string> args, program::Console& console);

/// What every command takes.
struct StudyFlags {
  std::filesystem::path storage;
  std::string study;  ///< empty: the only one of the file
  bool json = false;
};

/// An App named `muster study <command>` with STORAGE, --study and --json, which write to `flags`.
/// `words`: what else stands behind STORAGE, for the usage.
std::unique_ptr<CLI::App> study_app(const std::string& command,
                                    const std::string& description,
                                    const std::string& examples,
                                    StudyFlags& flags,
                                    const std::string& words = "");

/// STORAGE and --study, which write to `flags`.
void add_storage(CLI::App& app, StudyFlags& flags);

/// --trial N, which may be given several times; `which` says what for.
CLI::Option* add_trial_numbers(CLI::App& app,
                               std::vector<int64_t>& numbers,
                               const std::string& which);

/// --trial-folder, where the files of a study's trials are.
void add_trial_folder(CLI::App& app, std::filesystem::path& folder);

/// What it wrote to `given`, else the place that `muster tune` takes by itself.
std::filesystem::path trial_files_of(const StudyFlags& flags,
                                     const std::string& study,
                                     const std::filesystem::path& given);

/// A stored study with its trials: those of the log, then those that Optuna added.
struct StoredStudy {
  tune::StudySummary summary;
  tune::StudyFacts facts;
  std::vector<tune::TrialHistory> trials;
  std::optional<int> tuner;  ///< the process that runs it now
};

/// Throws as find_study and read_events. Checkpoints are where trial_files_of has them, if that is
/// there (Note [Moved trial folders]).
StoredStudy read_study(const StudyFlags& flags, const std::filesystem::path& trial_folder = {});

/// What changes a stored study waits for another program's lock as `muster tune` does, and says so:
/// `act` is called, with how long it is to wait by itself, until it gets the lock.
template <class Act>
auto patiently(program::Console& console, Act act) {
  constexpr double kSayWaitS = 1;
  return tune::wait_for_lock(
      tune::StudySpec().storage_patience_s,
      [&](const std::string& line) { console.note(line); },
      [&] { return act(kSayWaitS); });
}

/// Columns of text with a header, two blanks between them; numbers are on the right. Cells are cut
/// to `widest` columns at their end; those of the last column to what the others leave of
/// `line_width`, if that is more.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       size_t widest = 40,
                       size_t line_width = 0);

/// "1 trial", "40 trials".
std::string trials_text(size_t count);

/// Of a line for the reader of `console`: the terminal's, or no limit where there is none.
size_t line_width(const program::Console& console);

}  // namespace muster::cli
