// The logs of a run on disk: <folder>/<run>/attempt_<n>/<local rank>/{stdout,stderr}.log, as
// torchrun lays them out. <run> is the run id, or "<run id>-2", … where earlier runs have had it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/file.h"

namespace muster::launch {

/// Where logs go if no folder is named: ${XDG_STATE_HOME:-~/.local/state}/muster/logs, or, with no
/// home of this user, a `private_folder` $TMPDIR/muster-logs-<user id>. Throws an environment error.
std::filesystem::path default_log_dir();

/// A folder in a place where others may write: `path` if it is a folder of this user that nobody
/// else can look or write into, made if it is not there; else one of a name that nobody could know
/// beforehand. No link is followed. Throws an environment error.
std::filesystem::path private_folder(const std::filesystem::path& path);

/// "20261121-103059-<process id>-<counter>": unique on this machine, and sorts by time.
std::string make_run_id();

/// The folder of one run. While it lives, the folder is locked against `prune_runs` of other
/// launchers.
class LogFolder {
 public:
  LogFolder() = default;  ///< keeps no logs

  /// Creates `dir`/`run`, or the first of `dir`/`run`-2, -3, … that is not there: what an earlier
  /// run has left stays, and of runs that begin at once each has its own. Throws an environment
  /// error if that cannot be done.
  LogFolder(const std::filesystem::path& dir, const std::string& run);

  /// Empty if no logs are kept.
  const std::filesystem::path& path() const { return path_; }

  /// Whether an earlier run has the name that was asked for.
  bool has_another_name() const { return has_another_name_; }

  /// Creates and returns attempt_<n> with a folder per rank. Throws an environment error.
  std::filesystem::path make_attempt(int64_t restart_count, int64_t ranks) const;

 private:
  std::filesystem::path path_;
  UniqueFd lock_;
  bool has_another_name_ = false;
};

/// The log of a rank in the folder of its attempt that has something in it: stderr's, or else the
/// other. Empty if none has, and for an empty folder.
std::filesystem::path log_with_words(const std::filesystem::path& attempt, int64_t local_rank);

/// Removes the oldest runs in `dir` until `keep` are left. Runs in use and folders that are not
/// ours (a LogFolder leaves an empty file in its own) stay. Never throws: what cannot be removed
/// stays.
void prune_runs(const std::filesystem::path& dir, size_t keep);

/// One log file, for this user's eyes only; what is in it stays, and a link in its place is not
/// followed. A full disk must not end a job: when the file cannot be made or a write fails, that is said once and the rest is
/// dropped.
class LogFile {
 public:
  LogFile() = default;  ///< drops everything
  explicit LogFile(const std::filesystem::path& path);

  /// Empty, or, once, why nothing more will be written.
  std::string write(std::string_view bytes);

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::string trouble_;
};

}  // namespace muster::launch
