// Ranks as processes of this machine.
#include <cstdlib>

#include "muster/base/error.h"
#include "muster/base/job_key.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/launch/job/attempt.h"
#include "muster/launch/job/free_port.h"
#include "muster/launch/job/launcher.h"
#include "muster/launch/job/log_folder.h"
#include "muster/launch/process/program.h"

namespace muster::launch {
namespace {

constexpr int kPortTries = 4;
constexpr size_t kRunsKept = 20;

std::string local_available() { return ""; }

/// Who looks for the logs under the name of their run finds an earlier one's.
void say_other_name(const LogFolder& folder, const std::string& run, JobObserver& observer) {
  if (folder.has_another_name())
    observer.on_note(
        concat("run ", run, " has logs already: this one's are in ", folder.path().string()));
}

/// A folder that the user named must work; the one that nobody asked for may fail, say on a full
/// disk. Machines may share it.
LogFolder open_logs(const JobSpec& spec, const std::string& run_id, JobObserver& observer) {
  const std::string run = spec.nnodes > 1 ? concat(run_id, "-node-", spec.node_rank) : run_id;
  if (!spec.log_dir.empty()) {
    LogFolder folder(spec.log_dir, run);
    say_other_name(folder, run, observer);
    return folder;
  }
  try {
    const std::filesystem::path dir = default_log_dir();
    LogFolder folder(dir, run);
    folder.make_attempt(0, spec.nproc_per_node);
    prune_runs(dir, kRunsKept);
    say_other_name(folder, run, observer);
    return folder;
  } catch (const Error& error) {
    observer.on_note(concat("no logs are kept: ", error.text().refused, ": ", error.text().rule));
    return {};
  }
}

/// The port of an attempt; ours is held while it runs, but for a program that could not have it so.
FreePort port_of(const JobSpec& spec, bool was_lost) {
  if (spec.master_port != 0) return {.number = spec.master_port, .hold = {}};
  FreePort port = free_port();
  if (was_lost) port.hold.reset();
  return port;
}

std::string no_restart_text(const RankFailure& failure) {
  return concat("no restart: rank ",
                failure.rank,
                " ended with ",
                describe_status(failure.wait_status),
                ", wrong use, which would be the same again");
}

JobOutcome run(const JobSpec& typed, JobObserver& observer) {
  check(typed);
  JobSpec spec = typed;
  const auto program = find_program(spec.argv[0], process_environment("PATH").value_or(""));
  const std::string run_id = spec.run_id.empty() ? make_run_id() : spec.run_id;
  // Launchers of several machines cannot agree on what one of them makes up: neither on a name, of
  // which their job needs none, nor on a key.
  if (spec.nnodes == 1) spec.run_id = run_id;
  const std::string job_key = spec.nnodes == 1 ? JobKey::make().text() : "";
  SignalSource signals(spec.forward_signals);
  const LogFolder logs = open_logs(spec, run_id, observer);

  JobOutcome outcome;
  outcome.log_folder = logs.path();
  for (int port_tries = 1;; ++port_tries) {
    const FreePort port = port_of(spec, port_tries > 1);
    const AttemptPlan plan{.restart_count = outcome.restarts,
                           .master_port = port.number,
                           .log_folder = logs.make_attempt(outcome.restarts, spec.nproc_per_node),
                           .job_key = job_key};
    AttemptResult result = run_attempt(spec, program, plan, signals, observer);
    if (result.lost_port && spec.master_port == 0 && port_tries < kPortTries &&
        !result.stop_wanted) {
      observer.on_note(concat("port ", plan.master_port, " was taken meanwhile; trying another"));
      continue;
    }
    const bool failed = result.failure && !was_interrupted(*result.failure);
    const bool may_restart = failed && !result.stop_wanted && result.left_behind.empty() &&
                             outcome.restarts < spec.max_restarts;
    const bool is_wrong_use = failed && was_wrong_use(result.failure->wait_status);
    if (may_restart && is_wrong_use) observer.on_note(no_restart_text(*result.failure));
    if (!may_restart || is_wrong_use) {
      outcome.failure = std::move(result.failure);
      outcome.interrupted_by = result.interrupted_by;
      outcome.left_behind = std::move(result.left_behind);
      outcome.exit_code = exit_code_of(outcome.interrupted_by, outcome.failure);
      return outcome;
    }
    ++outcome.restarts;
    port_tries = 0;
    observer.on_note(describe(*result.failure));
    observer.on_note(
        concat("starting all ranks again: restart ", outcome.restarts, " of ", spec.max_restarts));
  }
}

}  // namespace

extern constinit const LauncherEntry local_entry{
    "local", "ranks are processes of this machine", &local_available, &run};

}  // namespace muster::launch
