// A rank's own failure, told to the others before its group goes.
#pragma once

#include <chrono>
#include <string>

#include "muster/distributed/process_group.h"

namespace muster::distributed {

/// Before the group goes, by an error that may be a consequence of another rank's: what of a process is its
/// own exception on the way. Nothing where the monitor is off.
void record_failure(const ProcessGroup& group, const std::string& why);

/// This rank will leave the group because of `why`, its own error: where others then wait for it, their
/// errors say "rank 1 failed: WHY" (the first line of it), and so does its flight record. False, and
/// nothing is told, if the group has failed already: then this error is a consequence. Where the
/// monitor is off, nothing is told either.
bool note_own_failure(const ProcessGroup& group, const std::string& why);

/// This rank will leave the group because of an error that all of its ranks have alike, each by itself:
/// nobody has to be told. But where one process ends before the others, these still ask the store that it
/// served, and c10d prints what it thinks of that: let_others_hear() has that process end last.
void note_common_failure(const ProcessGroup& group);

/// For a process that is about to end, its groups gone: if it has noted a failure of its own, or a common
/// one, and serves the store of its job, the others get so much time to read it there and to end. Ends as
/// soon as the launcher has seen them end.
void let_others_hear(std::chrono::milliseconds patience = std::chrono::seconds(2));

}  // namespace muster::distributed
