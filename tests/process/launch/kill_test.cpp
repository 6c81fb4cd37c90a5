// Whatever is killed, however: the launcher ends in time, says why, and no process is left.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/text.h"

#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

using ::testing::HasSubstr;

TEST(KilledRank, IsNamedAndTheOthersEnd) {
  Launched job(run_line({"--nproc-per-node", "3"}, "wait"));
  ASSERT_TRUE(job.wait_for("ready", 3)) << job.err();
  const auto ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 3U);
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("failed: signal SIGKILL (Killed)"));
  EXPECT_TRUE(job.nothing_left());
}

TEST(KilledLauncher, TakesRanksAndAllKindsOfGrandchildrenWithIt) {
  Launched job(
      run_line({"--nproc-per-node", "5"},
               "wait,grandchild:plain,grandchild:setsid,grandchild:daemon,grandchild:stubborn"));
  ASSERT_TRUE(job.wait_for("ready", 5)) << job.err();
  // Launcher, warden, five ranks, four grandchildren.
  ASSERT_EQ(job.processes().size(), 11U);
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait().signal, SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

TEST(KilledWarden, TakesRanksAndAllKindsOfGrandchildrenWithIt) {
  Launched job(
      run_line({"--nproc-per-node", "5"},
               "wait,grandchild:plain,grandchild:setsid,grandchild:daemon,grandchild:stubborn"));
  ASSERT_TRUE(job.wait_for("ready", 5)) << job.err();
  const pid_t warden = job.warden();
  ASSERT_GT(warden, 0);
  ::kill(warden, SIGKILL);
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("watches over the ranks was killed"));
  EXPECT_TRUE(job.nothing_left());
}

/// Until the process has closed its stdout.
void await_closed_stdout(pid_t pid) {
  const std::string link = concat("/proc/", pid, "/fd/1");
  for (int tries = 0; tries < 20'000 && std::filesystem::is_symlink(link); ++tries)
    ::poll(nullptr, 0, 1);
  EXPECT_FALSE(std::filesystem::is_symlink(link));
}

// Whose streams are closed ends unseen while the warden is stopped.
TEST(StoppedWarden, IsSentOnThoughItsRanksHaveClosedTheirStreamsLongBeforeTheyEnd) {
  Launched job(run_line({"--nproc-per-node", "2"}, "close-then-wait"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  const auto ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 2U);
  for (const pid_t rank : ranks) await_closed_stdout(rank);
  ::poll(nullptr, 0, 200);  // the launcher has seen it, too, and has sent the warden on for that
  ::kill(job.warden(), SIGSTOP);
  for (const pid_t rank : ranks) ::kill(rank, SIGKILL);
  EXPECT_EQ(job.wait().code, 1) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

// It reports what becomes of the ranks: nobody else would.
TEST(StoppedWarden, IsSentOnWhenItsRanksEndOrASignalComes) {
  for (const bool by_signal : {true, false}) {
    Launched job(run_line({"--nproc-per-node", "2", "--shutdown-timeout", "600"}, "wait"));
    ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
    const auto ranks = job.ranks();
    ASSERT_EQ(ranks.size(), 2U);
    ::kill(job.warden(), SIGSTOP);
    if (by_signal) {
      job.signal(SIGTERM);
    } else {
      for (const pid_t rank : ranks) ::kill(rank, SIGKILL);
    }
    EXPECT_EQ(job.wait().code, by_signal ? 143 : 1) << job.err();
    EXPECT_TRUE(job.nothing_left());
  }
}

TEST(FailedRank, TakesGrandchildrenOfAllRanksWithIt) {
  Launched job(run_line({"--nproc-per-node", "3"}, "grandchild:daemon,grandchild:setsid,exit:4"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("failed: exit code 4"));
  EXPECT_TRUE(job.nothing_left());
}

TEST(SuccessfulRanks, LeaveNoGrandchildBehind) {
  Launched job(run_line({"--nproc-per-node", "2", "--shutdown-timeout", "0.2"},
                        "grandchildren-then-exit:0"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

TEST(CtrlC, ReachesRanksWhichMayEndByThemselves) {
  Launched job(run_line({"--nproc-per-node", "2"}, "signal-then-exit:130,signal-then-exit:0"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_THAT(job.out(), HasSubstr("[0] got 2\n"));
  EXPECT_THAT(job.out(), HasSubstr("[1] got 2\n"));
  EXPECT_THAT(job.err(), HasSubstr("stopped by SIGINT"));
  EXPECT_TRUE(job.nothing_left());
}

TEST(CtrlC, PressedAgainKillsAtOnce) {
  Launched job(run_line({"--nproc-per-node", "2", "--shutdown-timeout", "600"}, "ignore"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for("press Ctrl-C again"));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.nothing_left());
}

TEST(CtrlC, IsNotTakenIfItWasIgnoredBefore) {
  ::signal(SIGINT, SIG_IGN);
  Launched job(run_line({}, "signal-then-exit:0"));
  ::signal(SIGINT, SIG_DFL);
  ASSERT_TRUE(job.wait_for("ready")) << job.err();
  job.signal(SIGINT);
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().code, 143);
  EXPECT_THAT(job.out(), HasSubstr("got 15"));
}

// Before anybody waits for it the signal ends the launcher itself, and nothing was started; behind
// that it is passed on.
TEST(EarlySignal, EndsAJobWhereverItsStartIs) {
  for (const int signal : {SIGTERM, SIGINT}) {
    for (int ms = 0; ms < 40; ms += 4) {
      SCOPED_TRACE(concat("signal ", signal, " after ", ms, " ms"));
      Launched job(run_line({"--nproc-per-node", "2", "--shutdown-timeout", "600"}, "wait"));
      ::poll(nullptr, 0, ms);
      job.signal(signal);
      const Ended end = job.wait();
      EXPECT_TRUE(end.signal == signal || end.code == 128 + signal)
          << end.code << ", signal " << end.signal << ": " << job.err();
      EXPECT_TRUE(job.nothing_left());
    }
  }
}

class ForwardedSignal : public ::testing::TestWithParam<int> {};

TEST_P(ForwardedSignal, ReachesTheRanksAndShowsInTheExitCode) {
  Launched job(run_line({"--nproc-per-node", "2"}, "signal-then-exit:0"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  job.signal(GetParam());
  EXPECT_EQ(job.wait().code, 128 + GetParam());
  EXPECT_THAT(job.out(), HasSubstr("[1] got " + std::to_string(GetParam())));
  EXPECT_TRUE(job.nothing_left());
}

INSTANTIATE_TEST_SUITE_P(All, ForwardedSignal, ::testing::Values(SIGINT, SIGHUP, SIGQUIT, SIGTERM));

TEST(StubbornRank, IsKilledAfterTheGraceTime) {
  Launched job(run_line({"--nproc-per-node", "2", "--shutdown-timeout", "0.3"}, "ignore"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().code, 143);
  EXPECT_THAT(job.err(), HasSubstr("within 0.3 s"));
  EXPECT_TRUE(job.nothing_left());
}

TEST(StoppedRank, StillEndsOnSigterm) {
  Launched job(
      run_line({"--nproc-per-node", "2", "--shutdown-timeout", "600"}, "stop-itself,wait"));
  ASSERT_TRUE(job.wait_for("ready", 2)) << job.err();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().code, 143);
  EXPECT_TRUE(job.nothing_left());
}

TEST(NestedLauncher, EndsWithTheOuterOne) {
  auto inner = run_line({"--nproc-per-node", "2"}, "grandchild:daemon");
  std::vector<std::string> outer{"run", "--nproc-per-node", "2", "--", "muster"};
  outer.insert(outer.end(), inner.begin(), inner.end());
  Launched job(outer);
  ASSERT_TRUE(job.wait_for("ready", 4)) << job.err();
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait().signal, SIGKILL);
  EXPECT_TRUE(job.nothing_left());
}

}  // namespace
}  // namespace muster::testing_process
