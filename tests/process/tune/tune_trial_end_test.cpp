// Every kind of end of a trial, and what the executor does about it.
#include <chrono>

#include <signal.h>
#include <sys/wait.h>

#include "muster/tune/execute/user_order.h"

#include "tests/process/tune/local_trials.h"
#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

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
  spec_.command = {"train.py"};
  start(3);
  drive();
  for (const ExecutorEvent& ended : all(ExecutorEvent::kEnded))
    EXPECT_EQ(ended.failure, Failure::kCrash);
  EXPECT_THAT(all(ExecutorEvent::kEnded)[0].message, HasSubstr("no such file"));
  EXPECT_THAT(all(ExecutorEvent::kEnded)[2].message,
              HasSubstr("hint: command = [\"python3\", \"train.py\""));
  EXPECT_THAT(all(ExecutorEvent::kEnded)[1].message, HasSubstr("in no folder of PATH"));
  EXPECT_THAT(all(ExecutorEvent::kEnded)[3].message, HasSubstr("first line such as #!/bin/sh"));
}

TEST_F(LocalTrials, ATrialWithoutAnEndTimesOut) {
  script("sleep 1000");
  spec_.trial_timeout_s = 0.05;
  run();
  EXPECT_EQ(end().failure, Failure::kTimeout);
  EXPECT_EQ(end().message, "no end within 50ms (trial_timeout_s)");
}

// A trial whose report is there while nobody looks, until its time is over.
class LateTuner : public LocalTrials {
 protected:
  void start_and_look_late() {
    spec_.report_timeout_s = 0.05;
    start(0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(folder_.path() / "said")) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "the trial said nothing";
      ::poll(nullptr, 0, 1);
    }
    ::poll(nullptr, 0, 60);
  }
  void let_it_end() { std::ofstream(folder_.path() / "go"); }
};

TEST_F(LateTuner, ATrialThatReportsNoMoreTimesOut) {
  script("echo '[tune-metric]: {\"loss\": 1}'; echo > said; sleep 1000");
  start_and_look_late();
  drive();
  EXPECT_THAT(reports(), SizeIs(1)) << "it had come in time";
  EXPECT_EQ(end().failure, Failure::kTimeout);
  EXPECT_EQ(end().message, "no report for 50ms (report_timeout_s)");
}

TEST_F(LateTuner, AReportInTimeAndOneThatWaitsForItsAnswerAreNotLate) {
  python(R"(
import json, os, socket, time
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
lines = [dict(type="hello", token=os.environ["MUSTER_TUNER_TOKEN"], trial=0, attempt=1, client="c"),
         dict(type="report", sequence=1, metrics={"loss": 1})]
link.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
open("said", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
)");
  start_and_look_late();
  const auto events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, ExecutorEvent::kReport) << events[0].message;
  EXPECT_THAT(executor().wait(0.1), IsEmpty()) << "a full disk, say";
  let_it_end();
  drive();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
}

TEST_F(LocalTrials, AFloodOfReportsDoesNotPutOffATimeout) {
  script("while :; do echo '{\"loss\": 1}'; done > $MUSTER_REPORT_FILE");
  spec_.trial_timeout_s = 0.3;
  run();
  EXPECT_EQ(end().failure, Failure::kTimeout);
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
  // The signal reaches the whole group; who brings the first answer is to live through it.
  script(
      "trap 'muster report loss=2; echo got it; exit 1' TERM; (trap '' TERM; exec muster report "
      "loss=1); while :; do sleep 0.01; done");
  std::chrono::steady_clock::time_point told;
  run([&](const ExecutorEvent& event) {
    told = std::chrono::steady_clock::now();
    return stop_at_once(event);
  });
  EXPECT_GE(std::chrono::steady_clock::now() - told, std::chrono::milliseconds(100));
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(reports(), SizeIs(1)) << "later ones are not counted";
  EXPECT_THAT(notes(),
              ElementsAre("trial 0: goes on reporting after it was told to end: not counted"));
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "stop\nstop\ngot it\n");
}

// Who saves with each report has not saved in vain: it cannot know that the study ends before it hears so.
TEST_F(LocalTrials, TheReportThatHearsOfAWishToEndCountsWithItsCheckpoint) {
  script(
      "muster report loss=1; while ! [ -e go ]; do sleep 0.01; done; echo > saved; muster report "
      "loss=2 --checkpoint $PWD/saved && exit 9; muster report loss=3");
  start(0);
  while (reports().empty()) on_events(executor().wait(20), go_on);
  executor().stop(0, "SIGINT", false);
  std::ofstream(folder_.path() / "go") << '\n';
  drive();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  ASSERT_THAT(reports(), SizeIs(2));
  EXPECT_EQ(all(ExecutorEvent::kReport)[1].report.checkpoint, folder_.path() / "saved");
  EXPECT_THAT(slurp(folder_of(0) / "stderr.log"), HasSubstr("SIGINT"));
  EXPECT_THAT(notes(),
              ElementsAre("trial 0: goes on reporting after it was told to end: not counted"));
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

// As a process that was being forked while the warden looked for whom to tell.
TEST_F(LocalTrials, WhatADyingProcessStartsIsToldToo) {
  leave_running("sleep 1000 &");
  run();
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(left_behind(token_), IsEmpty());
}

TEST_F(LocalTrials, WhatALivingProcessStartsToCleanUpIsLeftAlone) {
  leave_running("(sleep 0.1 &); sh -c 'sleep 0.3; echo > tidy'");
  run();
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "tidy"));
}

TEST_F(LocalTrials, StopOfATrialThatRuns) {
  spec_.stop_grace_s = 0.05;
  script("muster report loss=1; exec sleep 1000");
  start(0);
  start(1);
  while (all(ExecutorEvent::kReport).size() < 2 && !HasFatalFailure())
    on_events(executor().wait(20), go_on);
  EXPECT_THAT(location(0), MatchesRegex(".+:[0-9]+"));
  executor().stop(1, "the study is stopped", /*kill=*/true);
  while (all(ExecutorEvent::kEnded).empty() && !HasFatalFailure())
    on_events(executor().wait(20), go_on);
  EXPECT_EQ(end().trial, 1);
  executor().stop(0, "the study is stopped", /*kill=*/false);
  drive();
  ASSERT_THAT(all(ExecutorEvent::kEnded), SizeIs(2));
  for (const ExecutorEvent& ended : all(ExecutorEvent::kEnded))
    EXPECT_EQ(ended.failure, Failure::kNone) << ended.message;
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

TEST_F(LocalTrials, AUsersOrdersReachTheTunerWhichAnswersThem) {
  spec_.storage = folder_.path() / "study.db";
  EXPECT_THAT(test::refusal_of([&] { request_stop(spec_.storage, "try"); }),
              HasSubstr("none says that it runs it"));
  script("sleep 1000");
  start(4);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto pause = [&] { order_trial(spec_.storage, "try", 5, Action::kPause); };
    const std::string refused = test::error_of(pause);
    const std::string said = order_trial(spec_.storage, "try", 4, Action::kStop);
    request_stop(spec_.storage, "try");
    ::_exit(refused.find("no such trial") == std::string::npos || said != "it will");
  }
  std::vector<ExecutorEvent> events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, ExecutorEvent::kOrder);
  EXPECT_EQ(events[0].action, Action::kPause);
  EXPECT_EQ(events[0].trial, 5);
  executor().reject(events[0].token, "no such trial");
  events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].action, Action::kStop);
  EXPECT_EQ(events[0].trial, 4);
  executor().answer(events[0].token, {.action = Action::kStop, .reason = "it will"});
  events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, ExecutorEvent::kStopStudy);
  executor().wait(0.05);  // what was said is written
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  executor().stop(4, "asked", true);
  drive();
  executor_.reset();
  EXPECT_FALSE(std::filesystem::exists(contact_file(spec_.storage, "try")));
}

}  // namespace
}  // namespace muster::tune
