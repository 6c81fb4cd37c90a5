#include "muster/train/checkpoints/run_folder.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/folders.h"
#include "muster/train/checkpoints/kept_plan.h"

namespace muster::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kAbandoned = "abandoned";
constexpr const char* kCheckpoints = "checkpoints";

/// What a run's folder holds beside checkpoints: records that are replaced as a whole, never
/// written in place once their process has ended.
constexpr const char* kRecords[] = {"config.json",
                                    kConfigFile,
                                    kConfigBefore,
                                    "metrics.csv",
                                    "metrics.jsonl",
                                    "lr_find.csv",
                                    "lr_find.svg",
                                    "tensorboard",
                                    "confusion_matrix.csv",
                                    "curves.svg",
                                    "index.html"};

bool is_unfinished(const fs::path& path) {
  return path.filename().string().starts_with(kUnfinished);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  return entries;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw environment_error(
        {.refused = "cannot create " + folder.string(), .rule = error.message()});
  }
}

/// One more than the largest number that names an entry.
int64_t next_number(const fs::path& folder) {
  int64_t largest = 0;
  for (const fs::path& entry : entries_of(folder))
    largest = std::max(largest, to_int(entry.filename().string()).value_or(0));
  return largest + 1;
}

std::string names_of(const std::vector<int64_t>& steps) {
  std::vector<std::string> names;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    names.push_back(concat("step-", *step));
  return join(names, ", ");
}

/// What must be made for `path`, innermost first.
std::vector<fs::path> missing_folders(const fs::path& path) {
  std::vector<fs::path> missing;
  for (fs::path folder = path; !folder.empty() && !fs::exists(folder);
       folder = folder.parent_path())
    missing.push_back(folder);
  return missing;
}

bool is_folder_of(int fd, const fs::path& path) {
  struct stat ours {
  }, there{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  made_here_ = missing_folders(path_);
  make_writable_folder(path_, "output folder");
  LockHolder owner;
  lock_ = ProcessLock::try_acquire(path_ / kRunLock, owner);
  if (lock_) {
    folder_.reset(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return;
  }
  throw usage_error({.refused = "the run in " + path_.string(),
                     .rule = "one process at a time trains in a folder",
                     .value = text_of(owner),
                     .hint = "wait for it or end it, or name another folder with --output"});
}

std::unique_ptr<RunFolder> RunFolder::make_fresh(const fs::path& first) {
  for (int64_t number = 1;; ++number) {
    const fs::path path = number == 1 ? first : fs::path(concat(first.string(), '-', number));
    std::vector<fs::path> missing = missing_folders(path);
    if (missing.empty()) continue;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (!error && !fs::create_directory(path, error) && !error) continue;  // another was faster
    auto folder = std::make_unique<RunFolder>(path);  // says why if it could not be made
    folder->made_here_ = std::move(missing);
    return folder;
  }
}

std::optional<fs::path> RunFolder::place() const {
  if (!folder_ || is_folder_of(folder_.get(), path_)) return path_;
  std::error_code none;
  const fs::path moved = fs::read_symlink(concat("/proc/self/fd/", folder_.get()), none);
  if (!moved.empty() && is_folder_of(folder_.get(), moved)) return moved;
  return std::nullopt;
}

Error RunFolder::gone(const std::optional<fs::path>& saved_in) const {
  return environment_error(
      {.refused = "the run's folder " + path_.string(),
       .rule = "it stays where it is while the run goes on",
       .value = saved_in ? "moved to " + saved_in->string() : "removed",
       .hint =
           saved_in ? "the state is saved there: go on with --resume " + saved_in->string() : ""});
}

RunFolder::~RunFolder() {
  std::error_code none;
  if (const auto moved = place(); moved && *moved != path_) fs::remove(*moved / kRunLock, none);
  lock_.reset();
  for (const fs::path& folder : made_here_) fs::remove(folder, none);  // only where it is empty
}

bool RunFolder::is_run_of(const fs::path& path, const Checkpoint& checkpoint) {
  if (checkpoint.folder.empty()) return true;  // not from a disk
  const auto run = run_of(checkpoint.folder);
  std::error_code none;
  return run && fs::equivalent(*run, path, none);
}

void RunFolder::check(const fs::path& path, const Checkpoint* from) {
  if (from && !from->folder.empty() && !fs::exists(from->folder / "state.json")) {
    throw usage_error({.refused = "checkpoint " + from->folder.string(),
                       .rule = "it is not there any more",
                       .hint = "another process has removed it; --resume the run's folder"});
  }
  if ((from && is_run_of(path, *from)) || !fs::exists(path / "latest")) return;
  const bool is_restart = process_environment("TORCHELASTIC_RESTART_COUNT").value_or("0") != "0";
  throw usage_error({.refused = "--output " + path.string(),
                     .rule = "a run does not overwrite another one",
                     .hint = is_restart ? "a job that is restarted says --resume auto: it begins "
                                          "the run, and goes on with it"
                                        : concat("go on with it by --resume ",
                                                 path.string(),
                                                 ", or name another folder")});
}

std::vector<std::string> RunFolder::prepare(const Checkpoint* from) {
  std::vector<std::string> said;
  if (!keeps_others_out()) {
    said.push_back(concat("the file system of ",
                          path_.string(),
                          " knows no locks: nothing keeps a second process out of this run"));
  }
  tidy();
  if (from && !is_run_of(*from)) take_over(*from);
  if (from && !from->folder.empty()) take_checkpoint(from->folder, from->position.step);
  std::vector<int64_t> future = checkpoint_steps(path_);
  std::erase_if(future, [&](int64_t step) { return step <= (from ? from->position.step : -1); });
  if (std::string line = set_aside(future, from); !line.empty()) said.push_back(std::move(line));
  point_to(from);
  if (from && from->best_step >= 0 && !best_checkpoint(path_)) {
    said.push_back(concat("the checkpoint of the best epoch so far, step-",
                          from->best_step,
                          ", is not there any more: `best` is none until an epoch is better"));
  }
  return said;
}

/// Others may be writing where there are no locks: then their temporary folders stay.
void RunFolder::tidy() const {
  if (!keeps_others_out()) return;
  put_back_replaced(path_ / kCheckpoints);
  std::error_code none;
  for (const fs::path& entry : entries_of(path_ / kCheckpoints)) {
    if (is_unfinished(entry)) fs::remove_all(entry, none);
    for (const fs::path& file : entries_of(entry))  // see keep_plan()
      if (is_unfinished(file)) fs::remove(file, none);
  }
  for (const fs::path& entry : entries_of(path_)) {
    if (is_unfinished(entry) && fs::is_regular_file(entry)) fs::remove(entry, none);
  }
}

void RunFolder::take_checkpoint(const fs::path& from, int64_t step) const {
  const fs::path to = checkpoint_folder(path_, step);
  std::error_code none;
  if (!fs::exists(from) || fs::equivalent(from, to, none)) return;
  const fs::path unfinished = to.parent_path() / concat(kUnfinished, step, "-taken");
  make_folder(to.parent_path());
  fs::remove_all(unfinished, none);
  link_or_copy(from, unfinished);
  put_in_place(unfinished, to);
  sync_folder(to.parent_path());
}

/// The run goes on in another folder than it was in: what led to the checkpoint comes along.
void RunFolder::take_over(const Checkpoint& from) const {
  const auto run = run_of(from.folder);
  if (!run) return;
  if (from.best_step >= 0 && from.best_step != from.position.step)
    take_checkpoint(checkpoint_folder(*run, from.best_step), from.best_step);
  for (const char* name : {"metrics.csv", "metrics.jsonl", "lr_find.csv", "lr_find.svg"})
    link_or_copy(*run / name, path_ / name);
  withdraw_config(path_);  // of a start that went on from nothing
  for (const char* name : {kConfigBefore, kConfigFile})
    link_or_copy(*run / name, path_ / kConfigBefore);
}

// Note [Setting aside]
// A kill may come between any two changes, and the next start goes on where they broke off, so that one
// future becomes one run, whole: in abandoned/.unfinished- first its records and `best`, then the
// checkpoints that it only knows as best epochs, then `latest`. With that it is known, and only then the
// run is pointed back; what is still to be moved is moved by whichever start sees it.

/// What came after the checkpoint, with all that the run has recorded, becomes a run folder of its own.
/// `steps`: what of it is still here, newest first. Returns the line that says so; empty: there was nothing.
std::string RunFolder::set_aside(const std::vector<int64_t>& steps, const Checkpoint* from) const {
  const fs::path abandoned = path_ / kAbandoned;
  const fs::path aside = abandoned / kUnfinished;
  const bool is_known = fs::exists(aside / "latest");
  std::vector<int64_t> future = is_known ? moved_aside() : std::vector<int64_t>();
  future.insert(future.end(), steps.begin(), steps.end());
  std::ranges::sort(future, std::greater<>());
  std::error_code none;
  if (future.empty()) {  // at most links to what is still in its place
    fs::remove(aside / "latest", none);
    if (keeps_others_out()) fs::remove_all(aside, none);
    return "";
  }
  if (!is_known) fs::remove_all(aside, none);  // links, some of them half made
  make_folder(aside / kCheckpoints);
  if (!is_known) {
    for (const char* name : kRecords) link_or_copy(path_ / name, aside / name);
    if (const auto best = step_named_by(path_ / "best")) name_step(aside / "best", *best);
  }
  bring_best_epochs(future, aside);
  const auto latest = step_named_by(is_known ? aside / "latest" : path_ / "latest");
  const bool is_there = latest && std::ranges::find(future, *latest) != future.end();
  if (!is_known || !is_there) name_step(aside / "latest", is_there ? *latest : future.front());
  point_to(from);
  for (const int64_t step : steps) {
    // What has come along as a best epoch makes way first: the whole one stays until it is moved.
    fs::remove_all(checkpoint_folder(aside, step), none);
    put_in_place(checkpoint_folder(path_, step), checkpoint_folder(aside, step));
  }
  sync_folder(aside / kCheckpoints);
  sync_folder(path_ / kCheckpoints);
  const fs::path place = abandoned / std::to_string(next_number(abandoned));
  put_in_place(aside, place);
  sync_folder(abandoned);
  const int64_t at = from ? from->position.step : 0;
  return concat("what came after step ",
                at,
                " (",
                names_of(future),
                ") is set aside: go on with it by --resume ",
                place.string());
}

/// What a start that a kill broke off has moved already.
std::vector<int64_t> RunFolder::moved_aside() const {
  std::vector<int64_t> moved = checkpoint_steps(path_ / kAbandoned / kUnfinished);
  std::erase_if(moved, [&](int64_t step) { return fs::exists(checkpoint_folder(path_, step)); });
  return moved;
}

/// One can go back to each checkpoint there, so the best epochs that they know come along.
void RunFolder::bring_best_epochs(const std::vector<int64_t>& future, const fs::path& aside) const {
  std::set<int64_t> known;
  if (const auto best = step_named_by(aside / "best")) known.insert(*best);
  for (const int64_t step : future) {
    const fs::path here = checkpoint_folder(path_, step);
    const auto its = best_step_of(fs::exists(here) ? here : checkpoint_folder(aside, step));
    if (its) known.insert(*its);
  }
  for (const int64_t step : known) {
    if (std::ranges::find(future, step) == future.end())
      link_or_copy(checkpoint_folder(path_, step), checkpoint_folder(aside, step));
  }
}

void RunFolder::point_to(const Checkpoint* from) const {
  std::error_code none;
  const auto latest = step_named_by(path_ / "latest");
  if (!from || latest != from->position.step) withdraw_config(path_);
  if (!from) fs::remove(path_ / "latest", none);
  const bool has_best =
      from && from->best_step >= 0 && fs::exists(checkpoint_folder(path_, from->best_step));
  if (!has_best) {
    fs::remove(path_ / "best", none);
  } else if (step_named_by(path_ / "best") != from->best_step) {
    name_step(path_ / "best", from->best_step);
  }
  if (from && latest != from->position.step &&
      fs::exists(checkpoint_folder(path_, from->position.step)))
    name_step(path_ / "latest", from->position.step);
}

}  // namespace muster::train
