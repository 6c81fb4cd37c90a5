// The first failing rank: which one it was, how it ended and what it said last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launch {

/// What a rank wrote to TORCHELASTIC_ERROR_FILE, the way Python's `@record` does.
struct ErrorReport {
  std::string message;
  std::optional<int64_t> timestamp_s;  ///< seconds since 1970

  bool operator==(const ErrorReport&) const = default;
};

/// Reads {"message": "…"} or {"message": {"message": "…", "extraInfo": {"timestamp": "…"}}}.
/// Nothing if it is neither. Never throws; pure.
std::optional<ErrorReport> parse_error_report(std::string_view json);

/// How one rank ended. `wait_status` is waitpid's.
struct RankEnd {
  int64_t rank = 0;
  int pid = 0;
  int wait_status = 0;
  /// 0 for the first rank that ended; ranks seen to end together share a number.
  int64_t order = 0;
  int64_t time_s = 0;      ///< when it was seen to end, seconds since 1970
  bool was_asked = false;  ///< it ended after the launcher had told it to
  std::optional<ErrorReport> report;
};

/// The rank that failed first; nothing if none failed by itself. A report's time counts before the
/// time of death, in whole seconds as torch writes it; of ranks that died together one killed by a
/// signal is the cause, since its peers merely lost a connection. Pure.
std::optional<size_t> first_cause(std::span<const RankEnd> ends);

/// "exit code 3" or "signal SIGSEGV (Segmentation fault)". Pure.
std::string describe_status(int wait_status);

/// The first failing rank of an attempt.
struct RankFailure {
  int64_t rank = 0;
  int pid = 0;
  int wait_status = 0;
  std::optional<ErrorReport> report;
  std::vector<std::string> last_lines;  ///< oldest first; both streams
  std::filesystem::path stderr_log;     ///< empty if no log is kept
};

/// "rank 1 (pid 4711) failed: signal SIGSEGV (Segmentation fault)", its report, its last lines and
/// a hint. Several lines, no line end. Pure.
std::string describe(const RankFailure& failure);

}  // namespace muster::launch
