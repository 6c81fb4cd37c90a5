// For C++ programs that are trials: report metrics, hear whether to go on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/json_fwd.h"
#include "muster/base/rank_env.h"
#include "muster/tune/trial/protocol.h"

namespace muster::tune {

/// Reports to the tuner that started this process and waits for its answer; on kPause and kStop the
/// program saves what it must and ends.
///
///     if (muster::tune::report({{"loss", 0.31}}, {.step = epoch}) != Action::kContinue) return;
///
/// In a process that no tuner started the report goes to stderr as a line, and the answer is
/// kContinue. Throws a usage error for a report that the tuner refuses (a metric's name is
/// misspelt, say). If the tuner cannot be reached for a minute, the process ends with exit code 1
/// and a line on stderr: nobody waits for its work any more. See TrialLink for other wishes. With
/// several ranks, rank 0 reports. Any thread, one at a time.
Action report(const Metrics& metrics, const ReportOptions& options = {});

/// Tells the tuner that started this process why it is about to fail, on stderr; then end it with
/// an exit code that is not 0. `failure` is kOutOfMemory or kNan (kCrash is what a tuner takes for
/// granted): the study's policy for that class decides what follows. Nothing happens in a process
/// that no tuner started. Any thread.
void say_failure(Failure failure, std::string_view message);

/// The parameters of this trial as its params file has them, nested; an empty object outside a
/// study. Throws a usage error if the file is not there or is no JSON.
Json params(const EnvLookup& lookup = process_environment);

/// The checkpoint from which this trial is to go on; nothing if it starts from the beginning.
std::optional<std::string> resume_from(const EnvLookup& lookup = process_environment);

/// Where this trial keeps its checkpoints (the folder is there); nothing outside a study.
std::optional<std::string> checkpoint_dir(const EnvLookup& lookup = process_environment);

struct LinkOptions {
  double lease_s = 60;         ///< how long a link may stay lost
  bool exit_when_lost = true;  ///< else report() throws an environment error then
  std::function<void(std::string_view line)> echo;  ///< outside a study; none: stderr
  /// This process is to end: report() waits no longer for a tuner that does not answer (stopped, or on a
  /// machine that is), and goes on. Asked ten times a second while it waits; none: it waits.
  std::function<bool()> stop_requested;
};

/// The link of one process to its tuner: what report() above keeps one of. Threads may report at
/// the same time; they wait for one another. A forked child gets a link of its own at its first
/// report.
class TrialLink {
 public:
  /// Reads the environment; connects at the first report. Throws a usage error for an address that
  /// is none.
  explicit TrialLink(LinkOptions options = {}, const EnvLookup& lookup = process_environment);
  ~TrialLink();
  TrialLink(const TrialLink&) = delete;
  TrialLink& operator=(const TrialLink&) = delete;

  enum class Kind { kTwoWay, kOneWay, kNone };
  Kind kind() const;  ///< how this process reaches its tuner

  /// The tuner's answer, with its reason. Throws as report(); a refusal leaves the link as it was.
  Decision report(const Metrics& metrics, const ReportOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
