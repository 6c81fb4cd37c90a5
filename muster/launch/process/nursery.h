// A small process that starts wardens for a large one. Private to Muster: not installed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/file.h"
#include "muster/launch/process/warden.h"

namespace muster::launch {

// Note [Nursery]
//
//   tuner ── nursery ──┬── warden ── trial ── its grandchildren …
//     │                ├── warden ── trial
//     └── a control socket to each warden
//
// A warden is a forked copy of its launcher. For one job that costs nothing that counts; a tuner
// starts thousands, from a process of hundreds of megabytes whose pages each fork marks and each
// write then copies. So one copy is made at the start, while the tuner is small, and makes the
// wardens when told to: what a trial costs does not depend on the tuner. The plan of a trial
// (arguments, environment) comes as a file in memory, its descriptors over the socket; the control
// socket of the warden is the tuner's from the beginning.
//
// What dies, and what then happens (see Note [No process is left] for the wardens' part):
//   - the tuner: each warden and the nursery read end-of-file. The wardens kill what is below them;
//     the nursery, which adopts orphans, waits until all of them are gone, removes the tuner's
//     folder and ends.
//   - a warden: its trial dies with it; what the trial had started falls to the nursery, which
//     kills it.
//   - the nursery: the wardens live on, they are bound to the tuner. The tuner makes another
//     nursery at the next start.
class Nursery {
 public:
  /// Forks. `folder` (may be empty) and the files directly in it are removed when the owner is
  /// dead. Throws an environment error. Call on any thread.
  explicit Nursery(const std::filesystem::path& folder);

  /// Lets the nursery end, which it does when its last warden has; waits a few seconds for that.
  ~Nursery();
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  /// One rank, with `start.folder` as its working folder. What fails later comes as a report of the
  /// warden. Throws an environment error if no descriptor, no memory or no nursery can be had.
  Warden start(const std::filesystem::path& program,
               const std::vector<std::string>& argv,
               const RankStart& start,
               const void* rank_signal_mask);

  int pid() const { return pid_; }

 private:
  void make();

  std::string folder_;
  UniqueFd control_;
  int pid_ = -1;
};

}  // namespace muster::launch
