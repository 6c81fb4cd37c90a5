#include "muster/launch/process/failure.h"

#include <tuple>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

std::optional<int64_t> timestamp_of(const Json& message) {
  const auto extra = message.find("extraInfo");
  if (extra == message.end() || !extra->is_object()) return std::nullopt;
  const auto stamp = extra->find("timestamp");
  if (stamp == extra->end()) return std::nullopt;
  if (stamp->is_string()) return to_int(stamp->get<std::string>());
  if (stamp->is_number_integer()) return stamp->get<int64_t>();
  return std::nullopt;
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

std::optional<ErrorReport> parse_error_report(std::string_view text) {
  if (!is_safe_json(text)) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto message = json.find("message");
  if (message == json.end()) return std::nullopt;
  if (message->is_string()) return ErrorReport{message->get<std::string>(), timestamp_of(json)};
  if (!message->is_object()) return std::nullopt;
  const auto inner = message->find("message");
  if (inner == message->end() || !inner->is_string()) return std::nullopt;
  return ErrorReport{inner->get<std::string>(), timestamp_of(*message)};
}

std::optional<size_t> first_cause(std::span<const RankEnd> ends) {
  const auto key = [](const RankEnd& end) {
    const int64_t time_s =
        end.report && end.report->timestamp_s ? *end.report->timestamp_s : end.time_s;
    return std::tuple(time_s, end.order, WIFSIGNALED(end.wait_status) ? 0 : 1, end.rank);
  };
  std::optional<size_t> first;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].wait_status == 0 || (ends[i].was_asked && !ends[i].report)) continue;
    if (!first || key(ends[i]) < key(ends[*first])) first = i;
  }
  return first;
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

std::string describe(const RankFailure& failure) {
  std::string out = concat("rank ",
                           failure.rank,
                           " (pid ",
                           failure.pid,
                           ") failed: ",
                           describe_status(failure.wait_status));
  if (failure.report) out += "\nit reported: " + failure.report->message;
  if (!failure.last_lines.empty()) {
    out += "\nits last lines:";
    for (const std::string& line : failure.last_lines) out += "\n  | " + line;
  }
  if (!failure.stderr_log.empty()) out += "\nlog: " + failure.stderr_log.string();
  const std::string hint = hint_for(failure.wait_status);
  if (!hint.empty()) out += "\nhint: " + hint;
  return out;
}

}  // namespace muster::launch
