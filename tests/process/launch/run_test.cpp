// `muster run` from outside: what is shown, what is kept, what the exit code says.
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/text.h"

#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Run, ShowsLinesBehindTheRank) {
  Launched job(run_line({"--nproc-per-node", "2"}, "print:one,print:two"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[0] one\n"));
  EXPECT_THAT(job.out(), HasSubstr("[1] two\n"));
  EXPECT_THAT(job.err(), IsEmpty());
}

TEST(Run, ShowsLinesAsTheyAreOnRequest) {
  Launched job(run_line({"--no-prefix", "--nproc_per_node=2", "--local-ranks-filter", "1"},
                        "print:one,print:two"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_EQ(job.out(), "two\n");
}

TEST(Run, FlushesALineWithoutEnd) {
  Launched job(run_line({}, "no-newline:half"));
  EXPECT_EQ(job.wait().code, 0);
  EXPECT_EQ(job.out(), "[0] half\n");
}

TEST(Run, LosesNothingOfAFlood) {
  Launched job(run_line({"--nproc-per-node", "2"}, "flood:5000"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  // Each rank: 50000 lines of 100 bytes, and the prefix of 4.
  EXPECT_EQ(job.out().size(), 2U * 50000 * 104);
}

TEST(Run, StopsAFloodThatNobodyReads) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);  // its reader never reads
  Launched job(run_line({}, "flood:1000000"),
               {.environment = {}, .stdout_fd = ends[1], .stdin_fd = -1});
  ::close(ends[1]);
  char first[4];
  ASSERT_EQ(::read(ends[0], first, sizeof first), 4);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.nothing_left());
  ::close(ends[0]);
}

TEST(Run, EndsWhenItsReaderIsGone) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Launched job(run_line({}, "flood:1000000"),
               {.environment = {}, .stdout_fd = ends[1], .stdin_fd = -1});
  ::close(ends[1]);
  ::close(ends[0]);
  EXPECT_EQ(job.wait().signal, SIGPIPE);
  EXPECT_TRUE(job.nothing_left());
}

TEST(Run, SaysThatOutputWasLostOnAFullDisk) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  Launched job(run_line({}, "print:x"), {.environment = {}, .stdout_fd = full, .stdin_fd = -1});
  ::close(full);
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("No space left on device"));
}

TEST(Run, SeesTheEndOfARankThatClosedItsStreams) {
  Launched job(run_line({"--nproc-per-node", "2"}, "close-streams:0,close-streams:5"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("rank 1 "));
  EXPECT_THAT(job.err(), HasSubstr("exit code 5"));
}

TEST(Run, NamesTheSignalOfACrash) {
  Launched job(run_line({"--nproc-per-node", "2"}, "wait,segv"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("rank 1 "));
  EXPECT_THAT(job.err(), HasSubstr("signal SIGSEGV (Segmentation fault)"));
}

TEST(Run, TakesTheReportWithTheEarliestTimeAsTheCause) {
  const std::string fifo =
      (std::filesystem::temp_directory_path() / concat("muster-fifo-", ::getpid())).string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Launched job(
      run_line({"--nproc-per-node", "3"}, "wait,report-at:" + fifo + ",fail-after:" + fifo));
  EXPECT_EQ(job.wait().code, 1);
  ::unlink(fifo.c_str());
  EXPECT_THAT(job.err(), HasSubstr("rank 1 "));
  EXPECT_THAT(job.err(), HasSubstr("it reported: the cause"));
}

TEST(Run, DoesNotTakeTheErrorOfWhatARankStartedForTheRanksOwn) {
  const std::string muster = test::program_path("muster");
  Launched job({"run", "--", "sh", "-c", muster + " list nonsense 2> /dev/null; exit 3"});
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("exit code 3"));
  EXPECT_THAT(job.err(), Not(HasSubstr("it reported")));
}

TEST(Run, SaysWrongUseIfTheRanksDo) {
  Launched job(run_line({"--nproc-per-node", "2"}, "exit:2"));
  EXPECT_EQ(job.wait().code, 2);
}

TEST(Run, GivesRanksNoDescriptorsButTheirOwn) {
  Launched job(run_line({"--nproc-per-node", "2"}, "fds"));
  EXPECT_EQ(job.wait().code, 0);
  EXPECT_THAT(job.out(), HasSubstr("[0] fds 0 1 2 3 \n"));  // 3 is the progress pipe
  EXPECT_THAT(job.out(), HasSubstr("[1] fds 0 1 2 \n"));
}

TEST(Run, GivesItsInputToTheFirstRankOnly) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  ::close(ends[1]);
  Launched job(run_line({"--nproc-per-node", "2"}, "cat"),
               {.environment = {}, .stdout_fd = -1, .stdin_fd = ends[0]});
  ::close(ends[0]);
  EXPECT_EQ(job.wait().code, 0);
  EXPECT_THAT(job.out(), HasSubstr("[0] read 3\n"));
  EXPECT_THAT(job.out(), HasSubstr("[1] read 0\n"));
}

TEST(Run, ShowsProgressAsPlainLinesWithoutATerminal) {
  Launched job(run_line({"--nproc-per-node", "2"}, "progress,exit:0"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_EQ(job.err(), "train epoch 1/2: 100%, loss 0.5000\n");
}

TEST(Run, KeepsLogsOfEachRank) {
  Launched job(run_line({"--nproc-per-node", "2", "--rdzv-id", "mine"}, "print:one,print:two"));
  EXPECT_EQ(job.wait().code, 0);
  std::string line;
  std::getline(std::ifstream(job.folder() / "muster/logs/mine/attempt_0/1/stdout.log"), line);
  EXPECT_EQ(line, "two");
}

TEST(Run, NumbersTheRanksOfTheSecondNode) {
  Launched job(run_line({"--nproc-per-node",
                         "2",
                         "--nnodes",
                         "2",
                         "--node-rank",
                         "1",
                         "--rdzv-endpoint",
                         "host0:4711"},
                        "exit:99,exit:99,env:WORLD_SIZE,env:MASTER_PORT"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[2] WORLD_SIZE=4\n"));
  EXPECT_THAT(job.out(), HasSubstr("[3] MASTER_PORT=4711\n"));
}

TEST(Run, RefusesALogFolderThatTakesNoFiles) {
  Launched job(run_line({"--log-dir", "/proc/self/logs"}, "wait"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("cannot create the log folder /proc/self/logs"));
}

TEST(Run, GoesOnWithoutLogsThatNobodyAskedFor) {
  Launched job(run_line({}, "print:one"), {.environment = {"XDG_STATE_HOME=/proc/self"}});
  EXPECT_EQ(job.wait().code, 0);
  EXPECT_EQ(job.out(), "[0] one\n");
  EXPECT_THAT(job.err(), HasSubstr("no logs are kept: cannot create the log folder"));
}

TEST(Run, StartsAllRanksAgainAfterAFailure) {
  Launched job(
      run_line({"--nproc-per-node", "2", "--max-restarts", "3"}, "fail-until:0,fail-until:2"));
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("restart 2 of 3"));
  EXPECT_THAT(job.err(), Not(HasSubstr("restart 3 of 3")));
}

TEST(Run, TakesASignalThatOneRankAloneGotForAnInterruption) {
  Launched job(run_line({"--nproc-per-node", "2", "--max-restarts", "2"}, "signal-then-exit:130"));
  ASSERT_TRUE(job.wait_for("ready", 2));
  ASSERT_EQ(::kill(job.ranks().at(1), SIGINT), 0);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_THAT(job.err(), HasSubstr("muster: interrupted: rank "));
  EXPECT_THAT(job.err(), Not(HasSubstr("failed")));
  EXPECT_THAT(job.err(), Not(HasSubstr("starting all ranks again")));
}

TEST(Run, SaysOnceWhatAllRanksSay) {
  Launched job(run_line({"--nproc-per-node", "3"}, "say-error:prog: error: no such model"));
  EXPECT_EQ(job.wait().code, 0);
  EXPECT_EQ(count_of(job.err(), "prog: error: no such model"), 1U) << job.err();
  EXPECT_EQ(count_of(job.err(), "hint: of 3"), 1U) << job.err();
  EXPECT_THAT(job.err(), ContainsRegex("muster: ranks [0-2], [0-2] said the same\n"));
}

// The same command would meet the same refusal.
TEST(Run, DoesNotStartAgainAfterWrongUse) {
  Launched job(run_line({"--nproc-per-node", "2", "--max-restarts", "3"}, "exit:2"));
  EXPECT_EQ(job.wait().code, 2);
  EXPECT_THAT(job.err(),
              ContainsRegex("muster: no restart: rank [01] ended with exit code 2, wrong use"));
  EXPECT_THAT(job.err(), Not(HasSubstr("starting all ranks again")));
}

TEST(Run, GivesUpWhenRestartsAreUsedUp) {
  Launched job(run_line({"--nproc-per-node", "2", "--max-restarts", "1"}, "fail-until:9"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("exit code 7"));
}

TEST(Run, TriesAnotherPortIfItsChoiceWasTaken) {
  const auto file = std::filesystem::temp_directory_path() / concat("muster-port-", ::getpid());
  std::ofstream(file) << "cw";
  Launched job(run_line({"--nproc-per-node", "2"}, "lose-port:" + file.string() + ",wait"));
  ASSERT_TRUE(job.wait_for("trying another", 2)) << job.err();
  job.signal(SIGTERM);
  job.wait();
  std::filesystem::remove(file);
}

TEST(Run, DoesNotTryAnotherPortThanTheOneThatWasAskedFor) {
  Launched job(run_line({"--master-port", "12345"}, "exit:98"));
  EXPECT_EQ(job.wait().code, 1);
  EXPECT_THAT(job.err(), HasSubstr("exit code 98"));
}

}  // namespace
}  // namespace muster::testing_process
