// Tuner, nursery, warden: whatever is killed, no process of a trial is left.
#include <chrono>
#include <cstdlib>
#include <random>

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/process/tune/local_trials.h"

namespace muster::tune {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  // One that is just being executed cannot be told for a moment.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (processes_with(token_).size() < 12 && std::chrono::steady_clock::now() < until)
    ::poll(nullptr, 0, 1);
  EXPECT_GE(processes_with(token_).size(), 12U);
  ::kill(tuner, SIGKILL);
  ::waitpid(tuner, nullptr, 0);
  EXPECT_THAT(left_behind(token_), IsEmpty());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(LocalTrials, WhateverTheInstantNothingOutlivesAKilledTuner) {
  script(concat(kEscapes, " & exit 0"));  // trials end, start and escape all the time
  spec_.kill_grace_s = 0.01;
  std::mt19937 random(7);
  for (int round = 0; round < 15; ++round) {
    const pid_t tuner = ::fork();
    if (tuner == 0) {
      for (int64_t trial = 0;;) {
        while (open_ < 2) start(trial++);
        on_events(executor().wait(-1), go_on);
      }
    }
    // Any instant will do, so it is drawn.
    const int instant_ms = static_cast<int>(random() % 60);
    ::poll(nullptr, 0, instant_ms);
    ::kill(tuner, SIGKILL);
    ::waitpid(tuner, nullptr, 0);
    ASSERT_THAT(left_behind(token_), IsEmpty()) << "round " << round << ", " << instant_ms << " ms";
  }
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
    on_events(executor().wait(20), go_on);
  const pid_t warden = parent_of(pid_of(0));
  ASSERT_GT(warden, 1);
  ::kill(warden, SIGKILL);
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

TEST_F(LocalTrials, AStoppedNurseryIsSentOnForTheNextTrial) {
  script("muster report loss=1");
  start(0);
  std::vector<ExecutorEvent> events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  const pid_t nursery = parent_of(parent_of(pid_of(0)));
  ASSERT_EQ(parent_of(nursery), ::getpid());
  ::kill(nursery, SIGSTOP);
  start(1);
  executor().answer(events[0].token, {});
  drive();
  EXPECT_THAT(all(ExecutorEvent::kReport), SizeIs(1));
  EXPECT_THAT(all(ExecutorEvent::kEnded), SizeIs(2));
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
