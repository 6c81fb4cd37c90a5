// The local executor with real programs: reports by every way, every kind of end, and no process
// left behind.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/executor.h"
#include "muster/tune/protocol.h"
#include "muster/tune/stop_request.h"

#include "tests/error_of.h"
#include "tests/folder.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Decide = std::function<Decision(const ExecutorEvent&)>;

Decision go_on(const ExecutorEvent&) { return {}; }

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

/// Living processes that have `token` in their environment.
std::vector<pid_t> processes_with(const std::string& token) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = to_int(entry.path().filename().string());
    if (pid && slurp(concat("/proc/", *pid, "/environ")).find(token) != std::string::npos)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

/// Waits, woken by each death, until none is left; the command lines of those that stay 10 s.
std::vector<std::string> left_behind(const std::string& token) {
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
    spec_.environment["PATH"] = concat(MUSTER_TEST_BIN_DIR, ":", ::getenv("PATH"));
    spec_.stop_grace_s = 30;
    spec_.kill_grace_s = 30;
  }
  ~LocalTrials() override { EXPECT_THAT(left_behind(token_), IsEmpty()); }

  void script(const std::string& text) { spec_.command = {"/bin/sh", "-c", text}; }
  void python(const std::string& text) {
    spec_.command = {"python3", "-c", text};
    spec_.environment["PYTHONPATH"] = MUSTER_SOURCE_DIR "/share/muster";
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
    while (open_ > 0 && !HasFatalFailure()) take(executor().wait(20), decide);
  }

  void take(const std::vector<ExecutorEvent>& events,
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
      take(executor().wait(0.01), go_on, /*may_be_none=*/true);
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

Decision stop_at_once(const ExecutorEvent&) {
  return {.action = Action::kStop, .reason = "stopped at rung 1: 0.5 < cutoff 0.7 (n=3)"};
}

TEST_F(LocalTrials, AProgramThatDoesNothingEndsWell) {
  script("exit 0");
  run();
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_THAT(notes(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) / "stdout.log")) << "it wrote nothing";
}

TEST_F(LocalTrials, ParametersComeByCommandEnvironmentAndFile) {
  spec_.space = Space({{"lr", Domain(0.01)}, {"optimizer.name", Domain("sgd")}});
  spec_.command = {"/bin/sh",
                   "-c",
                   "echo $0 $1 $MUSTER_TRIAL_ID $MUSTER_TRIAL_ATTEMPT $MUSTER_STUDY "
                   "$CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS; cat $MUSTER_PARAMS_FILE; test -d "
                   "$MUSTER_CHECKPOINT_DIR && echo $MUSTER_RESUME_FROM; pwd",
                   "lr={lr}",
                   "{optimizer.name}"};
  start(7,
        {.attempt = 2,
         .resources = {.cpu = 3},
         .device_ids = {"GPU-a", "GPU-b"},
         .resume_from = "/some/where"});
  drive();
  EXPECT_EQ(slurp(folder_of(7) / "stdout.log"),
            concat("lr=0.01 sgd 7 2 try GPU-a,GPU-b 3\n"
                   "{\"lr\":0.01,\"optimizer\":{\"name\":\"sgd\"}}\n/some/where\n",
                   folder_.path().string(),
                   "\n"));
}

TEST_F(LocalTrials, VariablesOfAnOuterStudyDoNotReachTheTrial) {
  ::setenv("MUSTER_RESUME_FROM", "/outer", 1);
  script("echo [$MUSTER_RESUME_FROM]");
  run();
  ::unsetenv("MUSTER_RESUME_FROM");
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "[]\n");
}

// ---- Ways to report. ----

TEST_F(LocalTrials, TaggedLinesOnStdoutAreReports) {
  script(
      R"(echo hello; echo '[tune-metric]: {"loss": 0.5, "step": 1}'; echo '[0] [tune-metric]: {"loss": NaN}'; printf '[tune-metric]: {"loss": -Infinity}')");
  run();
  EXPECT_THAT(
      reports(),
      ElementsAre("1 {\"loss\":0.5,\"step\":1}", "2 {\"loss\":\"nan\"}", "3 {\"loss\":\"-inf\"}"));
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"), StartsWith("hello\n[tune-metric]: "));
}

TEST_F(LocalTrials, LinesInTheReportFileAreReports) {
  script(
      R"(echo '{"loss": 0.5, "step": 1, "checkpoint": "ckpt/1"}' >> $MUSTER_REPORT_FILE; echo '{"loss": 0.25}' > "$MUSTER_REPORT_FILE")");
  run();
  EXPECT_THAT(reports(),
              ElementsAre(concat("1 {\"loss\":0.5,\"step\":1,\"checkpoint\":\"",
                                 (folder_.path() / "ckpt/1").string(),
                                 "\"}"),
                          "2 {\"loss\":0.25}"));
}

TEST_F(LocalTrials, MusterReportHearsTheAnswer) {
  script(
      "muster report step=1 loss=0.5 --checkpoint c; echo $?; muster report step=2 loss=0.4; echo "
      "$?; muster report loss=oops; echo $?");
  run([](const ExecutorEvent& event) {
    return event.report.step == 2 ? Decision{.action = Action::kPause} : Decision{};
  });
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "continue\n0\npause\n4\n2\n");
  EXPECT_THAT(reports(), SizeIs(2));
}

TEST_F(LocalTrials, ARefusedReportIsAnErrorForTheProgramAndTheTrialGoesOn) {
  script("muster report step=1 los=0.5; echo $?");
  start(0);
  const auto events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  executor().refuse(events[0].token, "metric loss is missing\nhint: did you mean \"los\"?");
  drive();
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "2\n");
  EXPECT_THAT(slurp(folder_of(0) / "stderr.log"), HasSubstr("did you mean \"los\"?"));
}

TEST_F(LocalTrials, APythonProgramReportsAndStopsWhenTold) {
  spec_.space = Space({{"lr", Domain(0.5)}});
  python(R"(
from muster_report import report, params, resume_from, checkpoint_dir, reason
import os
print(params(), resume_from(), os.path.basename(checkpoint_dir()))
for step in range(1, 100):
    if report(loss=params()["lr"] / step, nan=float("nan"), step=step, checkpoint="c") != "continue":
        break
print(step, reason())
)");
  run([](const ExecutorEvent& event) {
    return event.report.step == 3 ? stop_at_once(event) : Decision{};
  });
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), SizeIs(3));
  EXPECT_THAT(reports().front(), HasSubstr(R"("loss":0.5,"nan":"nan","step":1)"));
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"),
            "{'lr': 0.5} None checkpoints\n3 stopped at rung 1: 0.5 < cutoff 0.7 (n=3)\n");
}

TEST_F(LocalTrials, APythonProgramHearsWhyItsReportIsRefused) {
  python(
      "from muster_report import report\ntry: report(loss='x')\nexcept ValueError as error: "
      "print(error)\n"
      "try: report({'step': 1}, step=1)\nexcept ValueError as error: print(error)\nreport(loss=1)");
  run();
  EXPECT_THAT(reports(), ElementsAre("1 {\"loss\":1.0}"));
  EXPECT_THAT(
      slurp(folder_of(0) / "stdout.log"),
      AllOf(HasSubstr("metric 'loss' is no number: 'x'"), HasSubstr("no metric may be named")));
}

// ---- Ends. ----

TEST_F(LocalTrials, ACrashIsToldWithTheLastLineOfStderr) {
  script("echo first >&2; echo 'ValueError: shapes do not match' >&2; echo ' ' >&2; exit 3");
  run();
  EXPECT_EQ(end().failure, Failure::kCrash);
  EXPECT_EQ(end().message, "exit code 3: ValueError: shapes do not match");
}

TEST_F(LocalTrials, ASignalIsNamed) {
  script("kill -SEGV $$");
  run();
  EXPECT_EQ(end().failure, Failure::kCrash);
  EXPECT_THAT(end().message, StartsWith("signal SIGSEGV"));
}

TEST_F(LocalTrials, MemoryThatRanOutIsAClassOfItsOwn) {
  python("raise MemoryError('too big')");
  run();
  EXPECT_EQ(end().failure, Failure::kOutOfMemory);
  EXPECT_THAT(end().message, HasSubstr("MemoryError: too big"));
}

TEST_F(LocalTrials, AProgramMayNameTheClassOfItsFailure) {
  script(R"(echo '[tune-failure]: {"class": "oom", "message": "batch 512 does not fit"}'; exit 1)");
  run();
  EXPECT_EQ(end().failure, Failure::kOutOfMemory);
  EXPECT_EQ(end().message, "exit code 1: batch 512 does not fit");
}

TEST_F(LocalTrials, ACommandThatIsNotThereEndsTheAttempt) {
  spec_.command = {"./no-such-program"};
  start(0);
  spec_.command = {"no-such-program-in-path"};
  start(1);
  std::ofstream(folder_.path() / "bad") << "no program";
  std::filesystem::permissions(folder_.path() / "bad", std::filesystem::perms::owner_all);
  spec_.command = {"./bad"};
  start(2);
  drive();
  for (const ExecutorEvent& ended : all(ExecutorEvent::kEnded))
    EXPECT_EQ(ended.failure, Failure::kCrash);
  EXPECT_THAT(all(ExecutorEvent::kEnded)[0].message, HasSubstr("no such file"));
  EXPECT_THAT(all(ExecutorEvent::kEnded)[1].message, HasSubstr("in no folder of PATH"));
  EXPECT_THAT(all(ExecutorEvent::kEnded)[2].message, HasSubstr("first line such as #!/bin/sh"));
}

TEST_F(LocalTrials, ATrialWithoutAnEndTimesOut) {
  script("sleep 1000");
  spec_.trial_timeout_s = 0.05;
  run();
  EXPECT_EQ(end().failure, Failure::kTimeout);
  EXPECT_EQ(end().message, "no end within 50ms (trial_timeout_s)");
}

TEST_F(LocalTrials, ATrialThatNeverReportsTimesOut) {
  script("muster report loss=1; sleep 1000");
  spec_.report_timeout_s = 0.2;
  run();
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_EQ(end().failure, Failure::kTimeout);
  EXPECT_EQ(end().message, "no report for 200ms (report_timeout_s)");
}

TEST_F(LocalTrials, NaNIsAFailureIfTheStudySaysSo) {
  script("muster report loss=0.5 step=1; muster report loss=nan step=2; echo $?; sleep 1000");
  spec_.nan_is_failure = true;
  run();
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_EQ(end().failure, Failure::kNan);
  EXPECT_EQ(end().message, "loss is nan at step 2");
}

TEST_F(LocalTrials, AfterStopAnyExitCodeIsFine) {
  script("muster report loss=1; exit 7");
  run(&stop_at_once);
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_EQ(end().message, "exit code 7");
  EXPECT_THAT(slurp(folder_of(0) / "stderr.log"), HasSubstr("stopped at rung 1"));
}

TEST_F(LocalTrials, WhoCannotHearAnswersGetsSigtermAtOnce) {
  script(
      R"(trap 'echo got it; exit 1' TERM; echo '[tune-metric]: {"loss": 1}'; while :; do sleep 0.01; done)");
  run(&stop_at_once);  // the grace of 30 s is not waited for
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"), HasSubstr("got it"));
}

TEST_F(LocalTrials, WhoIgnoresStopGetsSigtermAfterItsGrace) {
  spec_.stop_grace_s = 0.1;
  script("trap 'echo got it; exit 1' TERM; while :; do muster report loss=1; done");
  run(&stop_at_once);
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(reports(), SizeIs(1)) << "later ones are not counted";
  EXPECT_THAT(notes(),
              ElementsAre("trial 0: goes on reporting after it was told to end: not counted"));
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"),
              AllOf(StartsWith("stop\nstop\n"), HasSubstr("got it")));
}

TEST_F(LocalTrials, WhoIgnoresSigtermIsKilledWithAllItsDescendants) {
  spec_.stop_grace_s = spec_.kill_grace_s = 0.05;
  script(
      "trap '' TERM; (setsid sh -c 'sleep 1000 & exec sleep 1000' &) ; muster report loss=1; while "
      ":; do sleep 0.01; done");
  run(&stop_at_once);
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(notes(), ElementsAre("trial 0: did not end within 50ms of SIGTERM: killed"));
}

TEST_F(LocalTrials, WhatAProgramLeavesRunningEndsWithIt) {
  script("setsid sleep 1000 & (sleep 1000 &) ; sh -c 'trap \"\" HUP; sleep 1000' & exit 0");
  run();  // they end on SIGTERM; the kill grace of 30 s is not waited for
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(left_behind(token_), IsEmpty());
}

TEST_F(LocalTrials, StopOfATrialThatRuns) {
  spec_.stop_grace_s = 0.05;
  script("muster report loss=1; exec sleep 1000");
  start(0);
  start(1);
  while (all(ExecutorEvent::kReport).size() < 2 && !HasFatalFailure())
    take(executor().wait(20), go_on);
  EXPECT_THAT(location(0), MatchesRegex(".+:[0-9]+"));
  executor().stop(0, "the study is stopped", /*kill=*/false);
  executor().stop(1, "the study is stopped", /*kill=*/true);
  drive();
  ASSERT_THAT(all(ExecutorEvent::kEnded), SizeIs(2));
  EXPECT_EQ(all(ExecutorEvent::kEnded)[0].trial, 1);
  for (const ExecutorEvent& ended : all(ExecutorEvent::kEnded))
    EXPECT_EQ(ended.failure, Failure::kNone) << ended.message;
}

// ---- Floods and garbage. ----

TEST_F(LocalTrials, AFloodOfReportsIsHeldBackAndNothingIsLost) {
  script(
      R"(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo "[tune-metric]: {\"loss\": 1, \"step\": $i}"; done)");
  int64_t unanswered = 0, most = 0, next = 0;
  start(0);
  while (open_ > 0) {
    const auto events = executor().wait(20);
    ASSERT_FALSE(events.empty());
    unanswered = static_cast<int64_t>(events.size());
    most = std::max(most, unanswered);
    for (const ExecutorEvent& event : events) {
      if (event.kind == ExecutorEvent::kReport) {
        EXPECT_EQ(event.report.step, ++next);
        executor().answer(event.token, {});
      }
      if (event.kind == ExecutorEvent::kEnded) --open_;
    }
  }
  EXPECT_EQ(next, 20000);
  EXPECT_LE(most, 2048);
}

TEST_F(LocalTrials, AFloodThatIsNotAnsweredIsNotReadEither) {
  script(R"(while :; do echo '{"loss": 1}'; done > $MUSTER_REPORT_FILE)");
  start(0);
  size_t reports = 0;
  for (auto events = executor().wait(20); !events.empty(); events = executor().wait(0.1))
    reports += events.size();
  // 64 KiB are read at once, a line has 12 bytes; the pipe holds the rest back.
  EXPECT_GE(reports, 64U);
  EXPECT_LE(reports, 64U + (64U << 10) / 12);
  executor().stop(0, "", true);
  drive();
}

TEST_F(LocalTrials, ManyReportsInFlightOnOneConnectionAreAllAnswered) {
  python(R"(
import json, os, socket
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
def line(**message): return json.dumps(message).encode() + b"\n"
link.sendall(line(type="hello", token=os.environ["MUSTER_TUNER_TOKEN"], trial=0, attempt=1, client="c"))
link.sendall(b"".join(line(type="report", sequence=i, metrics={"loss": i}) for i in range(1, 3001)))
link.shutdown(socket.SHUT_WR)
answers = link.makefile().read().splitlines()
assert [json.loads(answer)["sequence"] for answer in answers] == list(range(1, 3001)), answers[:3]
)");
  run();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), SizeIs(3000));
}

TEST_F(LocalTrials, ARepeatedReportIsAnsweredAgainAndCountedOnce) {
  python(R"(
import json, os, socket
def exchange(client, *sequences):
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
    lines = [dict(type="hello", token=os.environ["MUSTER_TUNER_TOKEN"], trial=0, attempt=1, client=client)]
    lines += [dict(type="report", sequence=i, metrics={"loss": i}) for i in sequences]
    link.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
    link.shutdown(socket.SHUT_WR)
    return [json.loads(line).get("reason") for line in link.makefile()]
print(exchange("a", 1, 2), exchange("a", 2, 3), exchange("b", 1))
)");
  int count = 0;
  run([&](const ExecutorEvent&) { return Decision{.reason = std::to_string(++count)}; });
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "['1', '2'] ['2', '3'] ['4']\n");
  EXPECT_THAT(reports(), SizeIs(4));
}

TEST_F(LocalTrials, GarbageIsAnsweredByAnErrorAndToldOnce) {
  python(R"(
import os, socket, sys
for text in [b"\0\xff\n", b"{}\n", b"x" * 200000 + b"\n", b'{"type":"report","sequence":1,"metrics":{"loss":1}}\n']:
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
    try: link.sendall(text)
    except OSError: pass
    try: print(link.makefile().readline()[:30])
    except OSError: print("hung up")
sys.stdout.buffer.write(b"\0\xfe[tune-metric]: {oops\n")
open(os.environ["MUSTER_REPORT_FILE"], "wb").write(b"x" * 100000 + b"\n[]\n")
print("[tune-failure]: what")
)");
  run();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_THAT(notes(), ::testing::Contains(HasSubstr("a line on stdout is no report")));
  EXPECT_THAT(notes(),
              ::testing::Contains(
                  HasSubstr("a line in the report file is no report: this line is too long")));
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"), StartsWith("{\"type\":\"error\",\"sequence\":0"));
}

TEST_F(LocalTrials, ReportsAfterTheEndAreTurnedAwayWithOneLine) {
  // The token outlives the trial outside of it.
  script("echo $MUSTER_TUNER_ADDR $MUSTER_TUNER_TOKEN");
  run();
  std::istringstream words(slurp(folder_of(0) / "stdout.log"));
  std::string address, old_token;
  words >> address >> old_token;
  script(concat(
      "MUSTER_TRIAL_ID=0 MUSTER_TUNER_TOKEN=",
      old_token,
      " muster report loss=1; echo $?; MUSTER_TUNER_TOKEN=wrong muster report loss=1; echo $?"));
  start(1);
  drive();
  EXPECT_EQ(slurp(folder_of(1) / "stdout.log"), "2\n2\n");
  EXPECT_THAT(slurp(folder_of(1) / "stderr.log"), HasSubstr("attempt 1 of trial 0 is over"));
  EXPECT_THAT(notes(),
              ElementsAre("trial 0: reports after its end: not counted",
                          HasSubstr("has a token of no trial")));
}

// ---- The tuner. ----

TEST_F(LocalTrials, SignalsToTheTunerAreEvents) {
  script("trap 'exit 0' TERM; while :; do sleep 0.01; done");
  start(0);
  ::kill(::getpid(), SIGINT);
  std::vector<ExecutorEvent> events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, ExecutorEvent::kInterrupt);
  EXPECT_EQ(events[0].message, "SIGINT");
  executor().stop(0, "SIGINT", false);
  drive();
}

TEST_F(LocalTrials, WaitEndsInTime) {
  const auto before = std::chrono::steady_clock::now();
  EXPECT_THAT(executor().wait(0.02), IsEmpty());
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
  EXPECT_THAT(executor().wait(0), IsEmpty());
}

TEST_F(LocalTrials, AnExecutorThatGoesTakesItsTrialsAlong) {
  script(
      "trap '' TERM; setsid sh -c \"trap '' TERM; echo ready; sleep 1000; sleep 1000\"; sleep "
      "1000");
  start(0);
  executor_.reset();
  open_ = 0;
  EXPECT_THAT(left_behind(token_), IsEmpty());
}

TEST_F(LocalTrials, AStopRequestReachesTheTuner) {
  spec_.storage = folder_.path() / "study.db";
  EXPECT_THAT(test::refusal_of([&] { request_stop(spec_.storage, "try"); }),
              HasSubstr("none says that it runs it"));
  script("sleep 1000");
  start(4);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string refused = test::error_of([&] { request_stop(spec_.storage, "try", 5); });
    request_stop(spec_.storage, "try", 4);
    ::_exit(refused.find("trial 5 is not running") == std::string::npos);
  }
  std::vector<ExecutorEvent> events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, ExecutorEvent::kStopStudy);
  EXPECT_EQ(events[0].trial, 4);
  executor().wait(0.05);  // what was said is written
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  executor().stop(4, "asked", true);
  drive();
  executor_.reset();
  EXPECT_FALSE(std::filesystem::exists(contact_file(spec_.storage, "try")));
}

/// Everything that a trial can do to get away.
constexpr const char* kEscapes =
    "trap '' TERM HUP INT; sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep "
    "1000' &);"
    "nohup sleep 1000 >/dev/null 2>&1 & muster report loss=1; sleep 1000";

TEST_F(LocalTrials, ATunerThatIsKilledTakesAllKindsOfProcessesAlong) {
  script(kEscapes);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t tuner = ::fork();
  if (tuner == 0) {
    start(0);
    start(1);
    for (int seen = 0; seen < 2;) {
      for (const ExecutorEvent& event : executor().wait(20))
        seen += event.kind == ExecutorEvent::kReport;
    }
    if (::write(ready[1], "x", 1) == 1) executor().wait(-1);
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_GE(processes_with(token_).size(), 12U);
  ::kill(tuner, SIGKILL);
  ::waitpid(tuner, nullptr, 0);
  EXPECT_THAT(left_behind(token_), IsEmpty());
  ::close(ready[0]);
  ::close(ready[1]);
}

pid_t parent_of(pid_t pid) {
  const std::string stat = slurp(concat("/proc/", pid, "/stat"));
  const size_t at = stat.rfind(')');
  return at == std::string::npos ? 0 : std::atoi(stat.c_str() + at + 4);
}

TEST_F(LocalTrials, AKilledWardenLosesItsTrialAndLeavesNothing) {
  script(kEscapes);
  start(0);
  while (all(ExecutorEvent::kReport).empty() && !HasFatalFailure())
    take(executor().wait(20), go_on);
  ::kill(parent_of(pid_of(0)), SIGKILL);
  drive();
  EXPECT_EQ(end().failure, Failure::kLost);
  EXPECT_THAT(left_behind(token_), IsEmpty());
}

TEST_F(LocalTrials, AKilledNurseryIsReplacedAndItsTrialsGoOn) {
  script("muster report loss=1; muster report loss=2");
  start(0);
  std::vector<ExecutorEvent> events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  const pid_t warden = parent_of(pid_of(0));
  const pid_t nursery = parent_of(warden);
  ASSERT_EQ(parent_of(nursery), ::getpid());
  ::kill(nursery, SIGKILL);
  while (parent_of(warden) == nursery) ::sched_yield();
  start(1);
  executor().answer(events[0].token, {});
  drive();
  EXPECT_THAT(all(ExecutorEvent::kReport), SizeIs(3));
  for (const ExecutorEvent& ended : all(ExecutorEvent::kEnded))
    EXPECT_EQ(ended.failure, Failure::kNone) << ended.message;
}

TEST_F(LocalTrials, ATrialMayBeAMusterRunJob) {
  script(
      R"(exec muster run --nproc-per-node 2 -- sh -c 'echo "[tune-metric]: {\"loss\": $RANK}"; echo $WORLD_SIZE')");
  spec_.environment["XDG_STATE_HOME"] = folder_.path();
  run();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), SizeIs(2));
}

}  // namespace
}  // namespace muster::tune
