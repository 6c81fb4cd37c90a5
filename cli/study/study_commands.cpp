#include "cli/study/study_commands.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "muster/base/text.h"
#include "muster/program/line/value.h"
#include "muster/tune/core/trial_folders.h"

#include "cli/line/app.h"
#include "cli/line/tune_flags.h"

namespace muster::cli {
namespace {

constexpr StudyCommand kCommands[] = {
    {"list", "the studies of a file", &study_list},
    {"show", "a study's trials as a table", &study_show},
    {"watch", "on the whole terminal: sort, filter, stop, pause, add trials", &study_watch},
    {"best", "the best trial and its parameters", &study_best},
    {"importance", "which parameters decided", &study_importance},
    {"export", "as CSV, JSON, TensorBoard events or Ray's files", &study_export},
    {"plot", "as a page for a browser, or as pictures", &study_plot},
    {"ask", "the next trial's parameters, for a program that runs it itself", &study_ask},
    {"tell", "a trial's metrics, or its end", &study_tell},
    {"stop", "ask the tuner that runs a study to stop, or to stop one trial", &study_stop},
    {"pause", "have a trial give its slot back until it is continued", &study_pause},
    {"continue", "let a trial go on that was paused", &study_continue},
    {"add", "add a trial with parameters of your own", &study_add},
    {"restart", "put failed trials in once more", &study_restart},
    {"prune", "remove checkpoints of trials that are over", &study_prune},
    {"delete", "remove a study with its trials and files", &study_delete},
};

bool is_number(std::string_view cell) { return cell.empty() || to_double(cell).has_value(); }

/// At most `widest` columns; never within a code point.
std::string cut(std::string cell, size_t widest) {
  std::ranges::replace(cell, '\n', ' ');
  if (display_width(cell) <= widest) return cell;
  while (!cell.empty() && display_width(cell) > widest - 1) {
    while ((static_cast<unsigned char>(cell.back()) & 0xC0) == 0x80) cell.pop_back();
    cell.pop_back();
  }
  return cell + "…";
}

}  // namespace

std::span<const StudyCommand> study_commands() { return kCommands; }

std::unique_ptr<CLI::App> study_app(const std::string& command,
                                    const std::string& description,
                                    const std::string& examples,
                                    StudyFlags& flags,
                                    const std::string& words) {
  auto app = make_app("study " + command,
                      description,
                      examples,
                      concat("muster study ", command, " STORAGE ", words, "[OPTIONS]"));
  add_storage(*app, flags);
  app->add_flag("--json", flags.json, "for a script");
  return app;
}

void add_storage(CLI::App& app, StudyFlags& flags) {
  program::add_value(
      app, "storage", flags.storage, "the study's file, as `muster tune` or Optuna wrote it")
      ->type_name("STORAGE")
      ->required();
  program::add_value(app, "--study", flags.study, "its name; needed if the file has several")
      ->type_name("STUDY");
}

CLI::Option* add_trial_numbers(CLI::App& app,
                               std::vector<int64_t>& numbers,
                               const std::string& which) {
  return program::add_value(app, "--trial", numbers, which + "; may be given several times")
      ->type_name("N");
}

void add_trial_folder(CLI::App& app, std::filesystem::path& folder) {
  program::add_value(
      app, "--trial-folder", folder, "the study file's trial_folder [STORAGE-trials/STUDY]")
      ->type_name("DIR");
}

std::filesystem::path trial_files_of(const StudyFlags& flags,
                                     const std::string& study,
                                     const std::filesystem::path& given) {
  if (!given.empty()) return given;
  return trial_folder_of(std::filesystem::absolute(flags.storage), study);
}

StoredStudy read_study(const StudyFlags& flags, const std::filesystem::path& trial_folder) {
  StoredStudy study{.summary = tune::find_study(flags.storage, flags.study)};
  study.tuner = tune::running_tuner(flags.storage, study.summary.name);
  const auto foreign = tune::read_foreign_trials(flags.storage, study.summary.name);
  study.facts = tune::facts_of(study.summary, foreign);
  const auto folder = trial_files_of(flags, study.summary.name, trial_folder);
  std::error_code error;
  tune::TrialFolders folders(std::filesystem::is_directory(folder, error) ? folder : "");
  std::vector<tune::Event> events = tune::read_events(flags.storage, study.summary.name);
  for (tune::Event& event : events) folders.put_right(event);
  study.trials = tune::histories(events, foreign, study.facts);
  const auto numbers = tune::read_optuna_numbers(flags.storage, study.summary.name);
  for (tune::TrialHistory& trial : study.trials) {
    const auto of_optuna = trial.foreign ? numbers.end() : numbers.find(trial.number);
    if (of_optuna != numbers.end()) trial.optuna_number = of_optuna->second;
  }
  return study;
}

std::string trials_text(size_t count) { return concat(count, count == 1 ? " trial" : " trials"); }

size_t line_width(const program::Console& console) {
  constexpr size_t kNoLimit = 1 << 20;
  return console.err_is_terminal() ? static_cast<size_t>(console.width()) : kNoLimit;
}

std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       size_t widest,
                       size_t line_width) {
  if (rows.empty()) return "";
  std::vector<std::vector<std::string>> cells = rows;
  std::vector<size_t> widths(rows[0].size(), 0);
  std::vector<bool> right(rows[0].size(), true);
  size_t used = 0;  // by the columns before
  for (size_t c = 0; c < widths.size(); ++c) {
    const bool last = c + 1 == widths.size();
    const size_t limit = last && line_width > used + widest ? line_width - used : widest;
    for (size_t r = 0; r < cells.size(); ++r) {
      if (r > 0 && !is_number(cells[r][c])) right[c] = false;
      cells[r][c] = cut(std::move(cells[r][c]), limit);
      widths[c] = std::max(widths[c], display_width(cells[r][c]));
    }
    used += widths[c] + 2;
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string blanks(widths[c] - display_width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? blanks + row[c] : row[c] + blanks;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

}  // namespace muster::cli
