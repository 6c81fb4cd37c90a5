#include "muster/launch/process/failure.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

/// What CLOCK_MONOTONIC is ahead of CLOCK_REALTIME. They are read one after the other: again, if this
/// thread lost its core in between.
int64_t monotonic_minus_real_ns() {
  constexpr int64_t kTogetherNs = 1'000'000;
  int64_t difference = 0, least = INT64_MAX;
  for (int i = 0; i < 20 && least > kTogetherNs; ++i) {
    const int64_t before = clock_ns(CLOCK_MONOTONIC);
    const int64_t real = clock_ns(CLOCK_REALTIME);
    const int64_t took = clock_ns(CLOCK_MONOTONIC) - before;
    if (took >= least) continue;
    least = took;
    difference = before + took / 2 - real;
  }
  return difference;
}

/// When the file was written, on CLOCK_MONOTONIC. A file may be younger than what it reports, which
/// torch dates in whole seconds, cut off.
std::optional<int64_t> written_ns(const std::filesystem::path& file, const ErrorReport& report) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  int64_t real_ns = info.st_mtim.tv_sec * kSecondNs + info.st_mtim.tv_nsec;
  if (report.timestamp_s && *report.timestamp_s < info.st_mtim.tv_sec)
    real_ns = std::max<int64_t>(*report.timestamp_s, 0) * kSecondNs + kSecondNs - 1;
  return real_ns + monotonic_minus_real_ns();
}

/// Whether the lines show the first one of the text already.
bool show(std::span<const std::string> lines, const std::string& text) {
  const std::string first = first_line(text);
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(first) != std::string::npos;
  });
}

/// Not because it was told to end: with a report from before that, or without a word of that kind.
bool reported_unasked(const RankEnd& end) {
  if (!end.report) return false;
  return !end.asked_ns || end.report->monotonic_ns.value_or(end.time_ns) < *end.asked_ns;
}

/// The end of one that does nothing about a signal with which a launcher ends ranks.
bool may_be_launchers(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return false;
  switch (WTERMSIG(wait_status)) {
    case SIGTERM:
    case SIGKILL:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
      return true;
    default:
      return false;
  }
}

std::string hint_for(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return "";
  switch (WTERMSIG(wait_status)) {
    case SIGKILL:
      return "the kernel does this when memory runs out: see `dmesg`, or use a smaller batch";
    case SIGBUS:
      return "a full /dev/shm or a file that was cut short does this: see `df /dev/shm`";
    case SIGILL:
      return "the program may have been built for another processor";
    default:
      return "";
  }
}

}  // namespace

std::optional<ErrorReport> read_error_report(const std::filesystem::path& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return std::nullopt;
  try {
    auto report = parse_error_report(read_file(file));
    if (report && !report->monotonic_ns) report->monotonic_ns = written_ns(file, *report);
    return report;
  } catch (const Error&) {
    return std::nullopt;  // unreadable: as if it had written none
  }
}

std::optional<size_t> first_cause(std::span<const RankEnd> ends) {
  std::set<int64_t> named;
  for (const RankEnd& end : ends) {
    if (end.wait_status != 0 && reported_unasked(end))
      named.insert(end.report->after.begin(), end.report->after.end());
  }
  const auto counts = [&](const RankEnd& end) {
    if (end.wait_status == 0) return false;
    return !end.asked_ns || reported_unasked(end) ||
           (named.contains(end.rank) && !may_be_launchers(end.wait_status));
  };
  const auto key = [](const RankEnd& end) {
    const int64_t time_ns =
        end.report ? end.report->monotonic_ns.value_or(end.time_ns) : end.time_ns;
    const bool is_consequence = end.report && end.report->is_consequence;
    return std::tuple(
        is_consequence, time_ns, end.order, WIFSIGNALED(end.wait_status) ? 0 : 1, end.rank);
  };
  std::optional<size_t> first;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (counts(ends[i]) && (!first || key(ends[i]) < key(ends[*first]))) first = i;
  }
  return first;
}

bool awaits_cause(std::span<const RankEnd> ends, std::span<const int64_t> running) {
  bool awaits = false;
  for (const RankEnd& end : ends) {
    if (end.wait_status == 0) continue;
    if (!end.report || !end.report->is_consequence) return false;
    for (const int64_t rank : end.report->after)
      awaits |= std::find(running.begin(), running.end(), rank) != running.end();
  }
  return awaits;
}

bool was_interrupted(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGINT;
}

bool was_wrong_use(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 2;
}

bool was_interrupted(const RankFailure& failure) {
  return !failure.was_left && was_interrupted(failure.wait_status);
}

std::string ranks_text(std::span<const int64_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

std::string describe_status(int wait_status) {
  if (WIFEXITED(wait_status)) return concat("exit code ", WEXITSTATUS(wait_status));
  if (!WIFSIGNALED(wait_status)) return concat("wait status ", wait_status);
  const int signal = WTERMSIG(wait_status);
  const char* name = ::sigabbrev_np(signal);
  if (name == nullptr) return concat("signal ", signal);
  return concat("signal SIG",
                name,
                " (",
                ::sigdescr_np(signal),
                ")",
                WCOREDUMP(wait_status) ? ", core dumped" : "");
}

std::vector<std::string> ends_before(const RankEnd& end, std::span<const RankEnd> all) {
  std::vector<std::string> ends;
  if (!end.report || !end.report->is_consequence) return ends;
  for (const RankEnd& other : all) {
    if (std::ranges::count(end.report->after, other.rank) > 0)
      ends.push_back(
          concat("rank ", other.rank, " ended with ", describe_status(other.wait_status)));
  }
  return ends;
}

std::string describe(const RankFailure& failure) {
  if (was_interrupted(failure)) {
    return concat("interrupted: rank ",
                  failure.rank,
                  " (pid ",
                  failure.pid,
                  ") ended first, with ",
                  describe_status(failure.wait_status),
                  "; no signal came to this launcher");
  }
  std::string out = concat("rank ",
                           failure.rank,
                           " (pid ",
                           failure.pid,
                           failure.was_left ? ") was stopped when the rest of its job ended, and "
                                              "told to end: "
                                            : ") failed: ",
                           describe_status(failure.wait_status));
  if (failure.report && !show(failure.last_lines, failure.report->message))
    out += "\nit reported: " + failure.report->message;
  if (failure.report && failure.report->is_consequence)
    out +=
        failure.report->after.empty()
            ? "\nit was not the first: it failed because of other ranks"
            : concat("\nit was not the first: it failed after ",
                     ranks_text(failure.report->after),
                     failure.before.empty() ? "" : concat(" (", join(failure.before, ", "), ")"));
  if (!failure.last_lines.empty()) {
    out += "\nits last lines:";
    for (const std::string& line : failure.last_lines) out += "\n  | " + line;
  }
  if (!failure.log.empty()) out += "\nlog: " + failure.log.string();
  const std::string hint = failure.was_left ? "" : hint_for(failure.wait_status);
  if (!hint.empty()) out += "\nhint: " + hint;
  return out;
}

}  // namespace muster::launch
