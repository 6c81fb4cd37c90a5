// `muster report`: a trial that is a shell script reports to its tuner and hears the answer.
#include "muster/tune/trial/report.h"

#include <ostream>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/line/app.h"
#include "cli/line/reported_checkpoint.h"

namespace muster::cli {
namespace {

constexpr std::string_view kDescription =
    "Reports metrics of a trial to the tuner that started it, waits until they are stored, and "
    "prints what the trial is to do: continue, pause or stop.";
constexpr std::string_view kReportExamples =
    "Example, in a trial's script:\n"
    "  for epoch in $(seq 1 10); do\n"
    "    …\n"
    "    muster report step=$epoch loss=$loss --checkpoint ckpt/$epoch || exit\n"
    "  done\n\n"
    "Exit codes: 0 continue, 3 stop, 4 pause, 1 the link to the tuner is lost, 2\n"
    "wrong use or refused. `|| exit` ends the script with that code: any is fine\n"
    "after stop and pause, and 1 and 2 fail the trial, where `|| exit 0` would count\n"
    "it as complete. Outside a study the report goes to stderr and the answer is\n"
    "continue.\n"
    "Other ways to report: docs/trial-protocol.md.";

constexpr int kStopCode = 3, kPauseCode = 4;

struct Words {
  std::vector<std::string> pairs;
  std::string checkpoint;
  double lease_s = tune::LinkOptions{}.lease_s;
};

Error bad_pair(const std::string& word) {
  return usage_error({.refused = "a metric cannot be read",
                      .rule = "it is written name=number",
                      .value = word,
                      .hint = "muster report step=1 loss=0.31"});
}

void read_pair(const std::string& word, tune::Metrics& metrics, tune::ReportOptions& options) {
  const size_t at = word.find('=');
  if (at == 0 || at == std::string::npos) throw bad_pair(word);
  const std::string name = word.substr(0, at), value = word.substr(at + 1);
  if (name == "step") {
    const auto step = to_int(value);
    if (!step || *step < 0) {
      throw usage_error({.refused = "step cannot be read",
                         .rule = "it is a whole number, at least 0",
                         .value = word});
    }
    options.step = step;
    return;
  }
  const auto number = to_double(value);
  if (!number) throw bad_pair(word);
  if (tune::find_metric(metrics, name) != nullptr)
    throw usage_error({.refused = "metric " + name + " is given twice", .value = word});
  metrics.emplace_back(name, *number);
}

int exit_code_of(tune::Action action) {
  switch (action) {
    case tune::Action::kPause:
      return kPauseCode;
    case tune::Action::kStop:
      return kStopCode;
    case tune::Action::kContinue:
      break;
  }
  return kDone;
}

/// A script may have closed stdout and stderr: a socket would take their numbers, and the answer
/// would be printed into it.
void open_standard_streams() {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    return;
  }
}

int run_report_command(std::span<const std::string> args, program::Console& console) {
  open_standard_streams();
  Words words;
  const auto app = make_app("report",
                            std::string(kDescription),
                            std::string(kReportExamples),
                            "muster report [step=N] NAME=NUMBER … [OPTIONS]");
  program::add_value(*app, "metrics", words.pairs, "step=N and metrics, as name=number")
      ->type_name("NAME=NUMBER …");
  program::add_value(
      *app, "--checkpoint", words.checkpoint, "a checkpoint that holds the state at this report")
      ->type_name("PATH");
  program::add_duration(
      *app, "--lease", words.lease_s, "how long the tuner may be out of reach: 90s, 5m, 300")
      ->capture_default_str();
  if (const auto done = program::parse(*app, args, console)) return *done;

  tune::Metrics metrics;
  tune::ReportOptions options{.checkpoint = reported_checkpoint(words.checkpoint)};
  for (const std::string& word : words.pairs) read_pair(word, metrics, options);
  if (metrics.empty()) {
    throw usage_error({.refused = "there is nothing to report",
                       .rule = "a report has at least one metric",
                       .hint = "muster report step=1 loss=0.31"});
  }
  tune::TrialLink link({.lease_s = words.lease_s, .exit_when_lost = false});
  const tune::Decision decision = link.report(metrics, options);
  if (!decision.reason.empty() && decision.action != tune::Action::kContinue)
    console.note(decision.reason);
  console.out() << tune::name_of(decision.action) << '\n' << std::flush;
  return exit_code_of(decision.action);
}

}  // namespace

extern constinit const CommandEntry report_entry{
    "report", "report a trial's metrics to its tuner", &run_report_command};

}  // namespace muster::cli
