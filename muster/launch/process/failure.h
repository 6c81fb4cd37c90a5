// The first failing rank: which one it was, how it ended and what it said last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error_report.h"

namespace muster::launch {

/// What a rank left in `file`; nothing if there is none. Of a report without a time in nanoseconds
/// (Python's) the time of the file counts, in the clock of the rest. Throws nothing.
std::optional<ErrorReport> read_error_report(const std::filesystem::path& file);

/// How one rank ended. `wait_status` is waitpid's.
struct RankEnd {
  int64_t rank = 0;
  int pid = 0;
  int wait_status = 0;
  /// 0 for the first rank that ended; ranks seen to end together share a number.
  int64_t order = 0;
  int64_t time_ns = 0;  ///< when it was seen to end, CLOCK_MONOTONIC
  /// When the launcher had told it to end, if it ended after that.
  std::optional<int64_t> asked_ns;
  std::optional<ErrorReport> report;
};

/// The rank that failed first; nothing if none failed by itself. A rank that says that it failed
/// only because others had comes behind those that do not. Then the time of a report counts, or,
/// without one, that of the end; of ranks that died together one killed by a signal is the cause,
/// since its peers merely lost a connection. A rank that was asked to end counts if it had reported
/// before that, or if others had named it by then and it ended with an exit code or by a signal that
/// no launcher sends; what it says after it was asked may be because it was. Pure. See Note [Who was
/// first].
std::optional<size_t> first_cause(std::span<const RankEnd> ends);

/// Whether all ranks that failed so far did so only because others had ended, and some of those are
/// among the `running` still: the cause is yet to be seen. Pure.
bool awaits_cause(std::span<const RankEnd> ends, std::span<const int64_t> running);

/// "exit code 3" or "signal SIGSEGV (Segmentation fault)". Pure.
std::string describe_status(int wait_status);

/// Ended in order after a signal, with its state saved: exit code 128 + SIGINT, as `muster train`
/// and shells have it. Pure.
bool was_interrupted(int wait_status);

/// Its arguments, or what it was to work on, cannot be used: exit code 2, as of `muster train`,
/// Python's argparse and most programs. Pure.
bool was_wrong_use(int wait_status);

/// "rank 1", "ranks 1, 2". Pure.
std::string ranks_text(std::span<const int64_t> ranks);

/// The first failing rank of an attempt; or, if `was_interrupted`, the one that ended first after a
/// signal that the launcher did not get.
struct RankFailure {
  int64_t rank = 0;
  int pid = 0;
  int wait_status = 0;
  std::optional<ErrorReport> report;
  std::vector<std::string> last_lines;  ///< oldest first; both streams
  /// What it wrote, on stderr if anything: empty if it wrote nothing or no log is kept.
  std::filesystem::path log;
  /// It was stopped when the rest of its job ended, and this launcher told it to end.
  bool was_left = false;
  /// Of ranks that its report names as ended before it, and of which this launcher knows how:
  /// "rank 1 ended with exit code 0".
  std::vector<std::string> before = {};
};

/// How those ranks ended that its report names as the ones before it. Pure. See RankFailure::before.
std::vector<std::string> ends_before(const RankEnd& end, std::span<const RankEnd> all);

/// Of itself: not by a launcher. Pure.
bool was_interrupted(const RankFailure& failure);

/// "rank 1 (pid 4711) failed: signal SIGSEGV (Segmentation fault)", its report, its last lines and
/// a hint; of one that was interrupted, that it was. Several lines, no line end. Pure.
std::string describe(const RankFailure& failure);

}  // namespace muster::launch
