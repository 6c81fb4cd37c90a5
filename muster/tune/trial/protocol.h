// What a trial and its tuner say to each other, in any language: environment variables, and lines
// of JSON. The page for users is docs/trial-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Trial protocol]
// Two-way: the trial connects to MUSTER_TUNER_ADDR and writes a hello, then reports; each report is
// answered by one line, in any order of trials but in order within a connection. A report is stored
// before it is answered. A client numbers its reports; if the link breaks it connects again, says
// the same hello and sends again what was not answered; the tuner knows (client, sequence) and
// answers a repeated report from memory, so that nothing is counted twice.
//
//   > {"type":"hello","token":"9f…","trial":3,"attempt":1,"client":"41c0…"}
//   > {"type":"report","sequence":1,"step":4,"metrics":{"loss":0.31},"checkpoint":"…/4"}
//   < {"type":"answer","sequence":1,"action":"continue"}
//   > {"type":"report","sequence":2,"step":5,"metrics":{"loss":0.33}}
//   < {"type":"answer","sequence":2,"action":"stop","reason":"stopped at rung 4: …"}
//
// What cannot be taken is answered {"type":"error","sequence":2,"message":"…"}; sequence 0: the
// line itself was no message, or the hello was refused (the tuner then hangs up).
//
// One-way, for programs that cannot wait for an answer: a line {"loss":0.31,"step":4} to the file
// MUSTER_REPORT_FILE, or `[tune-metric]: {"loss":0.31,"step":4}` on stdout.
//
// Numbers that JSON has not are written as the texts "nan", "inf", "-inf"; the bare words of
// Python's json and of printf (NaN, Infinity, nan, inf) are read as well.

// What a trial finds in its environment.
inline constexpr std::string_view kTrialIdEnv = "MUSTER_TRIAL_ID";        ///< "3"
inline constexpr std::string_view kAttemptEnv = "MUSTER_TRIAL_ATTEMPT";   ///< "1" at first
inline constexpr std::string_view kStudyEnv = "MUSTER_STUDY";             ///< the study's name
inline constexpr std::string_view kTunerAddrEnv = "MUSTER_TUNER_ADDR";    ///< see parse_address
inline constexpr std::string_view kTunerTokenEnv = "MUSTER_TUNER_TOKEN";  ///< of this attempt
inline constexpr std::string_view kParamsFileEnv = "MUSTER_PARAMS_FILE";  ///< a JSON object
inline constexpr std::string_view kCheckpointDirEnv = "MUSTER_CHECKPOINT_DIR";
inline constexpr std::string_view kResumeFromEnv = "MUSTER_RESUME_FROM";  ///< set if resumed
inline constexpr std::string_view kReportFileEnv = "MUSTER_REPORT_FILE";  ///< one-way lines

/// What marks a report on stdout; Syne Tune's.
inline constexpr std::string_view kMetricTag = "[tune-metric]:";
/// `[tune-failure]: {"class": "oom", "message": "…"}` on stdout or stderr: the trial names the
/// class of its own end; "crash", "oom" or "nan".
inline constexpr std::string_view kFailureTag = "[tune-failure]:";

// Bounds of what is read from a trial. Longer or more is an error, not memory.
inline constexpr size_t kMaxLineBytes = 64 << 10;
inline constexpr size_t kMaxMetrics = 1000;
inline constexpr size_t kMaxNameBytes = 256;
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxReasonBytes = 4096;

/// Where a tuner listens: "unix:/run/user/1000/muster-x/socket" or "tcp:host:port" (an IPv6 address
/// in brackets).
struct Address {
  std::string path;  ///< of a Unix socket; empty: TCP
  std::string host;
  uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};
/// Throws a usage error that names `where`.
Address parse_address(std::string_view text, std::string_view where);
std::string address_text(const Address& address);

/// The first line of a connection of a trial.
struct Hello {
  std::string token;   ///< MUSTER_TUNER_TOKEN
  int64_t trial = -1;  ///< MUSTER_TRIAL_ID
  int32_t attempt = 1;
  std::string client;  ///< made up by the process that reports; its sequences are its own
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// `muster study stop`, `pause` or `continue`: a connection of its own with this one line, answered
/// by an Answer with sequence 0. See user_order.h.
struct UserOrder {
  std::string token;              ///< of the tuner
  int64_t trial = -1;             ///< -1, with kStop: the study
  Action action = Action::kStop;  ///< as the line's type
  friend bool operator==(const UserOrder&, const UserOrder&) = default;
};

/// A line to the tuner. Throws a usage error for anything else (not JSON, too long, a metric that
/// is no number, …), in words for the trial's author. Pure.
using TrialMessage = std::variant<Hello, Report, UserOrder>;
TrialMessage parse_trial_message(std::string_view line);

/// One line, with its line end. Throws a usage error for what the other side would refuse. Pure.
std::string to_line(const Hello& hello);
std::string to_line(const Report& report);
std::string to_line(const UserOrder& order);

/// A line from the tuner.
struct Answer {
  int64_t sequence = 0;
  Action action = Action::kContinue;
  std::string reason;
  std::string error;  ///< not empty: refused; action and reason say nothing
  friend bool operator==(const Answer&, const Answer&) = default;
};
Answer parse_answer(std::string_view line);  ///< throws as parse_trial_message
std::string to_line(const Answer& answer);   ///< reason and error cut to kMaxReasonBytes

/// {"loss": 0.31, "step": 4, "checkpoint": "…"}: everything but step and checkpoint is a metric.
/// Keys of Syne Tune's own (st_…) are passed over. Throws as parse_trial_message. Pure.
Report parse_report_line(std::string_view line);

/// The inverse, without the line end.
std::string to_report_line(const Report& report);

/// What stands behind `tag` in a line of output, which may have something before the tag (`muster
/// run` prefixes ranks); nothing if the tag is not there.
std::optional<std::string_view> behind_tag(std::string_view line, std::string_view tag);

/// What a trial says of its own failure.
struct FailureLine {
  Failure failure = Failure::kCrash;
  std::string message;
  friend bool operator==(const FailureLine&, const FailureLine&) = default;
};
FailureLine parse_failure_line(std::string_view json);  ///< throws as parse_trial_message

/// The inverse: the whole line with its tag, without the line end. The failure is kCrash,
/// kOutOfMemory or kNan; a message too long is cut.
std::string to_failure_line(const FailureLine& line);

}  // namespace muster::tune
