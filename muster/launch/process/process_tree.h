// Everything that descends from this process.
#pragma once

#include <span>

#include <sys/types.h>

namespace muster::launch {

/// From now on orphans among the descendants become children of this process instead of init's,
/// even if they have called setsid or forked twice, so that they can be found and waited for. False
/// if the kernel refuses.
bool adopt_orphans();

/// Sends `signal` to every process that descends from this one; returns how many were found. A
/// process that forks meanwhile can slip through: repeat until waitid says ECHILD. Reads
/// /proc/<pid>/task/<tid>/children (Linux 3.5). Async-signal-safe: no heap, so that a forked copy
/// of a program with threads may call it. At most 16384 at a time.
int signal_descendants(int signal);

/// After signal_descendants: sends `signal` to each child of this process that was not sent one.
/// Such a child was forked while signal_descendants looked, or since, and its parent has died. To
/// be called after each death; what a living process starts in order to clean up is left alone. A
/// number that was sent a signal and now belongs to another process counts as told.
/// Async-signal-safe.
void signal_new_orphans(int signal);

/// SIGKILL to each child of this process that is not among `known`, and to nothing below them: what
/// is there comes up as orphans when they die. Async-signal-safe.
void kill_other_children(std::span<const pid_t> known);

/// Kills and reaps until no descendant is left, for a process that has no other children, after
/// adopt_orphans. Blocks while the kernel holds a process that cannot die. Async-signal-safe.
void kill_descendants();

}  // namespace muster::launch
