// `muster study restart`, `prune` and `delete`.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <set>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/value.h"
#include "muster/tune/execute/executor.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

uint64_t bytes_below(const fs::path& path) {
  std::error_code error;
  uint64_t bytes = 0;
  if (fs::is_regular_file(fs::symlink_status(path, error))) bytes += fs::file_size(path, error);
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) bytes += entry.file_size(error);
  }
  return bytes;
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  do {  // another process may be at it, too
    fs::remove_all(folder, error);
  } while (error == std::errc::no_such_file_or_directory && fs::exists(folder));
  if (!error) return;
  throw environment_error(
      {.refused = "cannot remove " + folder.string(), .rule = errno_text(error.value())});
}

/// Folders that are to go, and what that frees.
class Removal {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(folder, error)) || fs::is_empty(folder, error)) return;
    add_as_it_is(folder);
  }

  /// What is in it but these, which may lie deeper.
  void add_but(const fs::path& folder, const std::set<fs::path>& needed) {
    std::error_code error;
    const auto real = [&](const fs::path& path) { return fs::weakly_canonical(path, error); };
    const auto within = [&](const fs::path& path) {
      const fs::path outer = real(path);
      return std::ranges::any_of(needed, [&](const fs::path& one) {
        return std::ranges::mismatch(outer, one).in1 == outer.end();
      });
    };
    if (!within(folder)) return add(folder);
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry);
    std::ranges::sort(entries);
    for (const fs::path& entry : entries) {
      if (needed.contains(real(entry))) continue;
      within(entry) ? add_but(entry, needed) : add_as_it_is(entry);
    }
  }

  /// Also an empty one.
  void add_as_it_is(const fs::path& folder) {
    bytes_ += bytes_below(folder);
    folders_.push_back(folder);
  }

  void carry_out() const {
    for (const fs::path& folder : folders_) remove_folder(folder);
  }

  const std::vector<fs::path>& folders() const { return folders_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::vector<fs::path> folders_;
  uint64_t bytes_ = 0;
};

/// Where no study is meant: folders of all studies of a file lie beside each other.
constexpr const char* kAnyStudy = "study";

/// Numbers of the `count` best trials that are over.
std::set<int64_t> best_trials(const StoredStudy& study, int64_t count) {
  std::vector<const tune::TrialHistory*> over;
  for (const tune::TrialHistory& trial : study.trials) {
    if (!trial.foreign && is_over(trial.state) && trial.state != tune::TrialState::kFailed &&
        !std::isnan(result_of(trial, study.facts)))
      over.push_back(&trial);
  }
  std::ranges::stable_sort(over, std::greater<>(), [&](const tune::TrialHistory* trial) {
    const double score = tune::score_of(result_of(*trial, study.facts), study.facts.mode);
    return std::pair(trial->goals.is_feasible(), score);
  });
  std::set<int64_t> numbers;
  if (study.facts.goals.several()) {  // the whole front, however many these are
    for (const tune::TrialHistory* trial : front_of(study.trials, study.facts))
      numbers.insert(trial->number);
    return numbers;
  }
  for (size_t i = 0; i < over.size() && static_cast<int64_t>(i) < count; ++i)
    numbers.insert(over[i]->number);
  return numbers;
}

/// What trials that are not over go on from, and what the best have come to. It may be another
/// trial's: one that is over.
std::set<fs::path> needed_checkpoints(const StoredStudy& study, const std::set<int64_t>& best) {
  std::set<fs::path> needed;
  std::error_code error;
  for (const tune::TrialHistory& trial : study.trials) {
    if (trial.foreign || trial.checkpoint.empty()) continue;
    if (!is_over(trial.state) || best.contains(trial.number))
      needed.insert(fs::weakly_canonical(trial.checkpoint, error));
  }
  return needed;
}

/// Checkpoints of trials that are over and not among the best, and what earlier studies left.
void add_what_to_prune(const StoredStudy& study,
                       const fs::path& folder,
                       int64_t keep,
                       Removal& removal) {
  const std::set<int64_t> best = best_trials(study, keep);
  const std::set<fs::path> needed = needed_checkpoints(study, best);
  for (const tune::TrialHistory& trial : study.trials) {
    if (trial.foreign || !is_over(trial.state) || best.contains(trial.number)) continue;
    removal.add_but(folder / concat("trial-", trial.number) / "checkpoints", needed);
  }
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("trial-") && name.find(tune::kOldFolder) != name.npos)
      old.push_back(entry.path());
  }
  std::ranges::sort(old);
  for (const fs::path& path : old) removal.add(path);
}

/// What deletions that were killed have left; `files` is the folder of some study's trials.
Removal left_by_deletions(const fs::path& files) {
  Removal removal;
  for (const fs::path& folder : tune::left_by_deletions(files)) removal.add_as_it_is(folder);
  return removal;
}

Json json_of(const Removal& removal) {
  Json folders = Json::array();
  for (const fs::path& folder : removal.folders()) folders.push_back(folder.string());
  return {{"folders", std::move(folders)}, {"bytes", removal.bytes()}};
}

void tell(const Removal& removal, bool json, bool dry, program::Console& console) {
  if (json) {
    console.out() << json_text(json_of(removal)) << '\n';
    return;
  }
  for (const fs::path& folder : removal.folders()) console.out() << folder.string() << '\n';
  console.note(concat(removal.folders().size(),
                      removal.folders().size() == 1 ? " folder, " : " folders, ",
                      human_bytes(removal.bytes()),
                      dry ? ": would be removed" : ": removed"));
}

}  // namespace

int study_restart(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("restart",
                             "Puts failed trials into a study once more, with the same parameters, "
                             "each as a new trial on top of num_samples. A tuner that runs takes "
                             "them at once, else the next one does.",
                             "Examples:\n  muster study restart fashion.db\n"
                             "  muster study restart fashion.db --trial 3 --trial 7\n\n"
                             "Without --trial: all that have failed and were not put in before.\n",
                             flags);
  std::vector<int64_t> numbers;
  add_trial_numbers(*app, numbers, "only this one");
  if (const auto done = program::parse(*app, args, console)) return *done;
  const std::string name = tune::find_study(flags.storage, flags.study).name;
  const auto restarted = patiently(console, [&](double patience_s) {
    return tune::restart_failed_trials(flags.storage, name, numbers, patience_s);
  });
  if (flags.json) {
    console.out() << json_text(Json{{"study", name}, {"restarted", restarted}}) << '\n';
  } else {
    std::vector<std::string> words;
    for (const int64_t number : restarted) words.push_back(std::to_string(number));
    console.note(
        restarted.empty()
            ? "no trial is to be restarted"
            : concat("once more: trial", words.size() == 1 ? " " : "s ", join(words, ", ")));
  }
  return kDone;
}

int study_prune(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app(
      "prune",
      "Removes the checkpoints of trials that are over, all but those of the best and what "
      "a trial that is not over goes on from, what "
      "earlier studies left in this one's folder (trial-N.old-…), and what a `muster "
      "study delete` that was killed left beside it (.muster-deleted-…). What trials "
      "printed, their parameters and the storage stay as they are.",
      "Examples:\n  muster study prune fashion.db --dry-run\n"
      "  muster study prune fashion.db --keep 3\n",
      flags);
  int64_t keep = 1;
  bool dry = false;
  fs::path folder;
  program::add_value(*app, "--keep", keep, "the best so many keep their checkpoints")
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--dry-run", dry, "only say what would be removed");
  add_trial_folder(*app, folder);
  if (const auto done = program::parse(*app, args, console)) return *done;
  if (keep < 0)
    throw usage_error({.refused = "--keep", .rule = "at least 0", .value = std::to_string(keep)});
  Removal removal = left_by_deletions(trial_files_of(flags, kAnyStudy, folder));
  // Of a file whose last study is deleted there may still be that.
  if (!tune::studies_of(flags.storage).empty() || !flags.study.empty()) {
    const StoredStudy study = read_study(flags, folder);
    add_what_to_prune(study, trial_files_of(flags, study.facts.name, folder), keep, removal);
  }
  if (!dry) removal.carry_out();
  tell(removal, flags.json, dry, console);
  return kDone;
}

int study_delete(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("delete",
                             "Removes a study from its file, with all trials, also those by "
                             "Optuna, and the folder of its trials. It cannot be undone. A study "
                             "that is run is refused; other studies of the file stay.",
                             "Examples:\n  muster study delete fashion.db --study fashion\n"
                             "  muster study delete fashion.db --keep-files\n",
                             flags);
  bool keep_files = false;
  fs::path folder;
  app->add_flag("--keep-files", keep_files, "leave the trials' output and checkpoints");
  add_trial_folder(*app, folder);
  if (const auto done = program::parse(*app, args, console)) return *done;
  // Who repeats a deletion that was killed finds no study any more, but what was left.
  if (!keep_files) {
    const Removal left = left_by_deletions(trial_files_of(flags, kAnyStudy, folder));
    left.carry_out();
    if (!left.folders().empty())
      console.note(
          concat("removed what a deletion that was killed had left, ", human_bytes(left.bytes())));
  }
  const std::string name = tune::find_study(flags.storage, flags.study).name;
  const fs::path files = keep_files ? fs::path() : trial_files_of(flags, name, folder);
  Removal removal;
  if (!keep_files) removal.add(files);
  // They are moved away before a new study of the name can begin there, and removed at leisure.
  const fs::path aside = patiently(console, [&](double patience_s) {
    return tune::delete_study(flags.storage, name, files, patience_s);
  });
  if (!aside.empty()) remove_folder(aside);
  if (flags.json) {
    Json json = json_of(removal);
    json["study"] = name;
    console.out() << json_text(json) << '\n';
  } else {
    console.note(concat("study \"", name, "\" is deleted"));
    if (!removal.folders().empty()) tell(removal, false, false, console);
  }
  return kDone;
}

}  // namespace muster::cli
