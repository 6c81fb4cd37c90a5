// A study of one script whose trials run through the local executor, for tests with real programs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/trial/protocol.h"

#include "tests/support/folder.h"
#include "tests/support/paths.h"
#include "tests/support/slurp.h"

namespace muster::tune {

using test::slurp;
using Decide = std::function<Decision(const ExecutorEvent&)>;

/// A word of a command that has no parameters in it: { and } are doubled.
inline std::string literally(const std::string& text) {
  std::string out;
  for (const char c : text) out.append(c == '{' || c == '}' ? 2 : 1, c);
  return out;
}

inline Decision go_on(const ExecutorEvent&) { return {}; }

/// Living processes that have `token` in their environment.
inline std::vector<pid_t> processes_with(const std::string& token) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = to_int(entry.path().filename().string());
    if (pid && slurp(concat("/proc/", *pid, "/environ")).find(token) != std::string::npos)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

/// Waits, woken by each death, until none is left; the command lines of those that stay 10 s.
inline std::vector<std::string> left_behind(const std::string& token) {
  for (;;) {
    const std::vector<pid_t> left = processes_with(token);
    if (left.empty()) return {};
    for (const pid_t pid : left) {
      const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      pollfd death{fd.get(), POLLIN, 0};
      if (fd && ::poll(&death, 1, 10000) <= 0) return {slurp(concat("/proc/", pid, "/cmdline"))};
    }
  }
}

/// A study of one script, and what its trials do.
class LocalTrials : public ::testing::Test {
 protected:
  LocalTrials() {
    static int counter = 0;
    token_ = concat("MUSTER_TEST_TOKEN=", ::getpid(), "-", counter++, ";");
    spec_.name = "try";
    spec_.metric = "loss";
    spec_.working_folder = folder_.path();
    spec_.trial_folder = folder_.path() / "trials";
    spec_.environment["MUSTER_TEST_TOKEN"] = token_.substr(token_.find('=') + 1);
    spec_.environment["PATH"] = concat(test::program_folder(), ":", ::getenv("PATH"));
    spec_.stop_grace_s = 30;
    spec_.kill_grace_s = 30;
  }
  ~LocalTrials() override { EXPECT_THAT(left_behind(token_), ::testing::IsEmpty()); }

  void script(const std::string& text) { spec_.command = {"/bin/sh", "-c", literally(text)}; }
  /// A trial that ends at once and leaves a process, which runs `on_term` when it is told to end.
  /// Without its trap, since a child of sh loses a signal that comes before it has reset its own.
  void leave_running(const std::string& on_term) {
    std::ofstream(folder_.path() / "left.sh") << "end() { trap - TERM\n"
                                              << on_term << "\nexit; }\ntrap end TERM\n"
                                              << "echo > ready\n"
                                              << "while :; do sleep 0.01; done\n";
    script("sh left.sh & while ! [ -e ready ]; do sleep 0.01; done");
  }
  void python(const std::string& text) {
    spec_.command = {"python3", "-c", literally(text)};
    spec_.environment["PYTHONPATH"] = test::source_path("share/muster");
  }

  Executor& executor() {
    if (!executor_) executor_ = executors().at("local").make({.spec = spec_, .study = "try"}, {});
    return *executor_;
  }

  void start(int64_t trial, AttemptPlan plan = {}) {
    plan.trial = trial;
    plan.checkpoint_folder = folder_of(trial) / "checkpoints";
    for (const auto& parameter : spec_.space.parameters()) {
      if (plan.values.size() < spec_.space.parameters().size())
        plan.values.push_back(parameter.domain.constant());
    }
    executor().start(plan);
    ++open_;
  }

  std::filesystem::path folder_of(int64_t trial) const {
    return spec_.trial_folder / concat("trial-", trial);
  }

  /// Answers reports until all trials have ended.
  void drive(const Decide& decide = go_on) {
    while (open_ > 0 && !HasFatalFailure()) on_events(executor().wait(20), decide);
  }

  void on_events(const std::vector<ExecutorEvent>& events,
                 const Decide& decide,
                 bool may_be_none = false) {
    ASSERT_TRUE(may_be_none || !events.empty()) << "nothing happened for 20 s";
    for (const ExecutorEvent& event : events) {
      seen_.push_back(event);
      if (event.kind == ExecutorEvent::kReport) executor().answer(event.token, decide(event));
      if (event.kind == ExecutorEvent::kEnded) --open_;
    }
  }

  void run(const Decide& decide = go_on) {
    start(0);
    drive(decide);
  }

  /// The warden's word of the trial's process may come after the first report.
  std::string location(int64_t trial) {
    while (executor().location(trial).find(':') == std::string::npos)
      on_events(executor().wait(0.01), go_on, /*may_be_none=*/true);
    return executor().location(trial);
  }
  pid_t pid_of(int64_t trial) {
    const std::string text = location(trial);
    return std::atoi(text.c_str() + text.rfind(':') + 1);
  }

  std::vector<ExecutorEvent> all(ExecutorEvent::Kind kind) const {
    std::vector<ExecutorEvent> out;
    std::copy_if(seen_.begin(), seen_.end(), std::back_inserter(out), [&](const auto& event) {
      return event.kind == kind;
    });
    return out;
  }
  ExecutorEvent end() const { return all(ExecutorEvent::kEnded).at(0); }
  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    for (const ExecutorEvent& note : all(ExecutorEvent::kNote)) out.push_back(note.message);
    return out;
  }
  /// "1 loss=0.5 step=3", one per report.
  std::vector<std::string> reports() const {
    std::vector<std::string> out;
    for (const ExecutorEvent& event : all(ExecutorEvent::kReport))
      out.push_back(concat(event.report.sequence, ' ', to_report_line(event.report)));
    return out;
  }

  test::Folder folder_;
  std::string token_;
  StudySpec spec_;
  std::unique_ptr<Executor> executor_;
  std::vector<ExecutorEvent> seen_;
  int open_ = 0;
};

inline Decision stop_at_once(const ExecutorEvent&) {
  return {.action = Action::kStop, .reason = "stopped at rung 1: 0.5 < cutoff 0.7 (n=3)"};
}

}  // namespace muster::tune
