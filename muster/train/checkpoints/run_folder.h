// The folder of a run: who owns it, and what becomes of it when a run begins, goes on or goes back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/process_lock.h"
#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {

// Note [Life of a run folder]
// docs/decisions/0016-the-life-of-a-run-folder.md. In short: a run's folder holds one line of steps
// and has one owner at a time, rank 0's process, which alone writes into it and removes from it.
// Whatever may be refused is refused before the first write. A run that goes back to an older step
// leaves a future behind: that becomes a run folder of its own, in abandoned/, and nothing of it is
// lost. A run that goes on in another folder begins there with what led to its checkpoint.

/// A run's folder, owned by this process while the object lives. One thread.
class RunFolder {
 public:
  /// Makes the folder if need be and locks it; beyond that nothing in it changes. Throws a usage
  /// error that names the process and the host that own it, an environment error if it cannot be
  /// written.
  explicit RunFolder(std::filesystem::path path);
  /// The first of `first`, `first`-2, `first`-3, … that is not there, made and locked: of two
  /// processes that ask at once each gets another.
  static std::unique_ptr<RunFolder> make_fresh(const std::filesystem::path& first);
  /// Lets go. Folders that were made here and have nothing in them go away.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Where the folder is now: path(), or where somebody has moved it; nothing if it was removed.
  std::optional<std::filesystem::path> place() const;
  /// What a run says whose folder is not at path() any more, and where its state was saved if it
  /// could be.
  Error gone(const std::optional<std::filesystem::path>& saved_in) const;
  /// False where the file system knows no locks: nothing keeps a second process out.
  bool keeps_others_out() const { return lock_->keeps_others_out(); }

  /// Whether a run may begin here (null), or go on here from a checkpoint: throws a usage error if
  /// the folder has a run already that is not the checkpoint's. Reads only.
  void check(const Checkpoint* from) const { check(path_, from); }
  /// The same of a folder that nobody needs to own, or to be able to write.
  static void check(const std::filesystem::path& path, const Checkpoint* from);

  /// Makes it the folder of a run that begins, or goes on from a checkpoint: finishes or removes
  /// what a kill left half done; sets a future aside that the run leaves; takes over the
  /// checkpoint, the best epoch's, and the rows of metrics from another run's folder; points
  /// `latest` and `best` to where the run is. A kill in the middle loses nothing: the next start
  /// goes on from the same checkpoint or the one before. Returns lines for people. Throws an
  /// environment error.
  std::vector<std::string> prepare(const Checkpoint* from);

 private:
  bool is_run_of(const Checkpoint& checkpoint) const { return is_run_of(path_, checkpoint); }
  static bool is_run_of(const std::filesystem::path& path, const Checkpoint& checkpoint);
  void tidy() const;
  void take_over(const Checkpoint& from) const;
  void take_checkpoint(const std::filesystem::path& from, int64_t step) const;
  std::vector<int64_t> moved_aside() const;
  void bring_best_epochs(const std::vector<int64_t>& future,
                         const std::filesystem::path& aside) const;
  std::string set_aside(const std::vector<int64_t>& steps, const Checkpoint* from) const;
  void point_to(const Checkpoint* from) const;

  std::filesystem::path path_;
  UniqueFd folder_;  // stays the same folder wherever it is moved
  std::unique_ptr<ProcessLock> lock_;
  std::vector<std::filesystem::path> made_here_;  // innermost first
};

}  // namespace muster::train
