// Ways to start the ranks of a job. One file of muster/launch/launchers/ adds one.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/entry.h"
#include "muster/launch/job/job.h"

namespace muster::launch {

struct LauncherEntry {
  static constexpr std::string_view kKind = "launcher";
  std::string_view name;
  std::string_view help;
  /// Empty if it can be used on this machine, else why not, in words.
  std::string (*available)();
  /// Starts the job, waits for its end and leaves no process of it. Blocks. Throws a usage error
  /// for a spec that cannot be started (see `check`) or a program that is not there, an environment
  /// error for an unwritable log folder.
  JobOutcome (*run)(const JobSpec& spec, JobObserver& observer);
};

/// The launchers of this build (generated; see Note [Generated tables]).
EntryTable<LauncherEntry> launchers();

}  // namespace muster::launch
