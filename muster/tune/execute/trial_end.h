// How an attempt of a trial ended: its class and its message. Private to the room.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "muster/tune/execute/last_words.h"
#include "muster/tune/trial/protocol.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

/// What is known when no process of the attempt is left.
struct TrialEnd {
  int wait_status = 0;               ///< waitpid's, of the trial's own process
  bool lost = false;                 ///< its watcher was killed; wait_status says nothing
  bool asked = false;                ///< it was told to stop or to pause: any end is fine
  std::string not_started;           ///< why the program could not be run; empty: it ran
  Failure failure = Failure::kNone;  ///< of a timeout or a NaN, with `why`
  std::string why;
  bool kernel_killed = false;          ///< the kernel's count of processes killed for memory rose
  std::string bad_line;                ///< why its newest line with a report was none
  std::optional<FailureLine> said;     ///< by a `[tune-failure]:` line
  std::deque<std::string> last_lines;  ///< of its stderr, oldest first
  LastWords words;                     ///< of its stderr
};

struct Judgement {
  Failure failure = Failure::kNone;
  std::string message;  ///< "exit code 1: RuntimeError: shapes do not match"
};

/// Pure.
Judgement judge(const TrialEnd& end);

/// True for SIGKILL, and for the exit code 137 by which a shell passes it on. Pure.
bool looks_killed(int wait_status);

/// True if a line of a program that fails says that memory was what it lacked: std::bad_alloc,
/// MemoryError, "CUDA out of memory" and the like. Pure.
bool speaks_of_memory(std::string_view line);

/// Counts processes that the kernel killed because memory ran out.
class OomCounter {
 public:
  /// `root` is put before /proc and /sys, for tests.
  explicit OomCounter(std::filesystem::path root = "/");

  /// The count now. An attempt keeps the one of its start.
  int64_t read() const;

  /// True if a process was killed since the count was `at_start`, and that kill was not taken up by
  /// another attempt; it is now.
  bool claim_kill(int64_t at_start);

 private:
  std::filesystem::path root_;
  int64_t taken_ = 0;
};

}  // namespace muster::tune
