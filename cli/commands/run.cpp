// `muster run`: starts a program as several ranks, shows what they say, and leaves no process
// behind.
#include <algorithm>
#include <filesystem>
#include <set>

#include <string.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/job/launcher.h"
#include "muster/launch/process/process_tree.h"
#include "muster/program/line/parse.h"
#include "muster/program/screen/live_bar.h"

#include "cli/command.h"
#include "cli/line/run_flags.h"
#include "cli/screen/said_once.h"

namespace muster::cli {
namespace {

// How long a reader of our output may take after the job was stopped by a signal.
constexpr double kLastWordsS = 2;

/// Lines of ranks, notes and progress, to the terminal.
class RunOutput : public launch::JobObserver {
 public:
  RunOutput(program::LiveBar& bar, const RunFlags& flags) : bar_(bar), prefix_(!flags.no_prefix) {
    const int64_t first = flags.spec.node_rank * flags.spec.nproc_per_node;
    for (const int64_t local : flags.local_ranks_filter) shown_.insert(first + local);
    const int64_t world = flags.spec.nproc_per_node * flags.spec.nnodes;
    digits_ = std::to_string(world - 1).size();
  }

  void on_line(int64_t rank, launch::Stream stream, std::string_view line) override {
    if (!shown_.empty() && !shown_.contains(rank)) return;
    if (stream == launch::Stream::kErr && !said_.is_new(rank, line)) return;
    std::string text;
    if (prefix_) {
      const std::string number = std::to_string(rank);
      text =
          concat('[', std::string(digits_ - std::min(digits_, number.size()), ' '), number, "] ");
    }
    text += line;
    stream == launch::Stream::kOut ? bar_.print_out(text) : bar_.print_err(text);
  }

  void on_progress(std::string_view json_line) override {
    if (const auto event = track::parse_progress_line(json_line)) bar_.update(*event);
  }

  void on_note(std::string_view text) override {
    say_who_said_the_same();
    bar_.print_err(concat("muster: ", text));
  }
  bool congested() override { return bar_.congested(); }
  int wake_fd() const override { return bar_.wake_fd(); }

  /// At the end of the job, and before what may be that of an attempt.
  void say_who_said_the_same() {
    if (const std::string text = said_.end_attempt(); !text.empty())
      bar_.print_err(concat("muster: ", text));
  }

 private:
  program::LiveBar& bar_;
  bool prefix_;
  size_t digits_ = 1;
  std::set<int64_t> shown_;
  SaidOnce said_;
};

void report(const launch::JobOutcome& outcome, program::Console& console) {
  if (outcome.failure) {
    const std::string text = launch::describe(*outcome.failure);
    launch::was_interrupted(*outcome.failure) ? console.note(text) : console.error(text);
  }
  if (outcome.interrupted_by != 0) {
    console.note(concat("stopped by SIG", ::sigabbrev_np(outcome.interrupted_by)));
  }
  for (const int pid : outcome.left_behind) {
    console.error(
        concat("process ",
               pid,
               " does not die: it hangs in the kernel\n",
               "hint: a disk or a device does not answer; the process ends when it does"));
  }
}

/// Runs the job; whatever happens, all of it is shown before this returns.
launch::JobOutcome run_shown(const RunFlags& flags, program::Console& console) {
  program::LiveBar bar(console);
  RunOutput output(bar, flags);
  // Second line of defence: Note [No process is left].
  launch::adopt_orphans();
  try {
    launch::JobOutcome outcome = launch::launchers().at(flags.launcher).run(flags.spec, output);
    output.say_who_said_the_same();
    const bool hurry = outcome.interrupted_by != 0 || !outcome.left_behind.empty();
    bar.finish(hurry ? kLastWordsS : -1);
    if (const std::string trouble = bar.trouble(); !trouble.empty()) {
      console.error("output of ranks was lost: cannot write: " + trouble);
      if (outcome.exit_code == kDone) outcome.exit_code = kFailed;
    }
    return outcome;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kEnvironment) launch::kill_descendants();
    throw;
  }
}

int run_run_command(std::span<const std::string> args, program::Console& console) {
  RunFlags flags;
  if (const auto done = parse_run_flags(args, console, flags)) return *done;
  const launch::JobOutcome outcome = run_shown(flags, console);
  report(outcome, console);
  return outcome.exit_code;
}

}  // namespace

extern constinit const CommandEntry run_entry{
    "run", "start a program as several ranks", &run_run_command};

}  // namespace muster::cli
