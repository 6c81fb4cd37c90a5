// How a rank tells its launcher why it failed, at the moment in which it did.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::diagnose {

// Note [Who was first]
// When a rank fails, its peers fail within milliseconds, and which process a launcher sees end
// first is chance. So each rank writes down why it failed, when (on the clock that all processes of
// a host share), and whether it failed by itself or only because a peer had: a peer's failure is
// noted where an operation learns of it, and what happens to the process after that is its
// consequence, whatever is thrown by then. The launcher (muster/launch/process/failure.h) takes the
// earliest failure that is no consequence. A rank that dies by a signal writes nothing; there the
// time of its end counts.
//
// The file is the one of TORCHELASTIC_ERROR_FILE (muster/base/error_report.h); without that variable
// nothing is written. What a rank starts inherits the variable: once it is known which process is the
// rank, no copy of it (fork) writes. The first note of a process stays, but for one of its peers'
// failure: what it ends of later is written in front of that, since a program may catch the error and
// fail by itself in the end; and if it does something with peers again, that failure is survived, and
// the note is taken back. Any thread; nothing here throws.

/// This process fails for a reason of its own.
void note_failure(const std::string& message);

/// This process cannot go on because its peers failed; `ended` are those ranks whose processes
/// ended or which have left, as far as it is known.
void note_failure_of_peers(const std::string& message, const std::vector<int>& ended);

/// An operation with peers that was begun at `begun_ns` (FlightRecorder::now_ns) has succeeded: if
/// that was after they were noted to have failed, this process has survived it. Costs a look at a
/// number as a rule.
void note_success_with_peers(int64_t begun_ns);

/// Whoever has more to write down than that hears of a failure of this process's own, by note_failure
/// or an exception that nobody catches, for as long as the result lives: with its words, on the thread
/// that fails, when the note is written. What it throws is lost.
using FailureListener = std::shared_ptr<const std::function<void(const std::string& message)>>;
FailureListener on_failure(std::function<void(const std::string& message)> hear);

/// This process is the rank. From now on an exception that nobody catches is noted before the process
/// ends of it, as it does without this: what was installed by std::set_terminate before is called
/// then.
void note_uncaught_exceptions();

}  // namespace muster::diagnose
