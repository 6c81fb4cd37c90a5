// Real processes that die and stall: every survivor names the one who did, with operation, number
// and sizes.
#include <filesystem>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::string backend;
  std::string fault;
  int victim;
};

class FailedRank : public ::testing::TestWithParam<Case> {};

constexpr int kRanks = 3;
constexpr std::chrono::seconds kLimit(90);  // of a job
// Of an operation. A rank that was stopped is named when it is over; one that died long before.
constexpr int kTimeoutMs = 6000;
constexpr int kLongTimeoutMs = 30000;

TEST_P(FailedRank, IsNamedByEverySurvivorWithinTheTimeout) {
  const Case& test = GetParam();
  const bool stopped = test.fault == "stop";
  Launched job({"run",
                "--nproc-per-node",
                std::to_string(kRanks),
                "--shutdown-timeout",
                stopped ? "8" : "30",  // a rank that is stopped ends with it, no sooner
                "--",
                test::program_path("muster_monitored_rank"),
                test.backend,
                std::to_string(stopped ? kTimeoutMs : kLongTimeoutMs)},
               {.environment = {concat(
                    "MUSTER_FAULTS=", test.fault, "@rank=", test.victim, ",op=all_reduce,at=7")}});
  EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
  // shm sees by itself who is missing, and says so first; of a dead rank also why.
  const bool shm = test.backend == "shm";
  const std::string words =
      shm ? concat("rank ", test.victim, stopped ? " did not come" : " is dead: its process ")
          : concat("rank ",
                   test.victim,
                   test.victim == 0 ? ", which serves the store, is " : " is ",
                   stopped ? "stopped" : "gone");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == test.victim) continue;
    const std::string said = stderr_of(job, rank);
    EXPECT_THAT(said, HasSubstr(words)) << job.err();
    // The sixth step's broadcast may hold the news before the seventh all_reduce does.
    EXPECT_THAT(said,
                ::testing::AnyOf(HasSubstr("all_reduce sum float32[1000] #12 of group default"),
                                 HasSubstr("all_reduce sum float32[1000] #12 of shm ranks"),
                                 HasSubstr("broadcast root 0 int64[4] #11 of group default"),
                                 HasSubstr("broadcast root 0 int64[4] #11 of shm ranks")));
    if (!shm) {
      EXPECT_THAT(said, HasSubstr(concat("rank ", rank, " of 3")));
    }
    std::smatch took;
    const std::regex pattern("failed within ([0-9.]+) s");
    ASSERT_TRUE(std::regex_search(said, took, pattern)) << said;
    // 0.3 s and 6.3 s, but for a machine that has other things to do.
    EXPECT_LT(std::stod(took[1]), stopped ? kTimeoutMs * 1e-3 + 8 : kLongTimeoutMs * 1e-3 / 2);
  }
  EXPECT_TRUE(job.nothing_left());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string fault : {"kill", "stop"}) {
    for (const std::string backend : {"gloo", "shm"}) {
      for (const int victim : {0, 2}) all.push_back({backend, fault, victim});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, FailedRank, ::testing::ValuesIn(cases()), [](const auto& info) {
  return concat(info.param.backend, "_", info.param.fault, "_rank_", info.param.victim);
});

// Without a suspicion a rank reads one neighbour only: nobody may take the others for silent.
TEST(FailedRankOfFour, IsTheOnlyOneNamedThoughTheOthersWereNeverRead) {
  Launched job({"run",
                "--nproc-per-node",
                "4",
                "--shutdown-timeout",
                "30",
                "--",
                test::program_path("muster_monitored_rank"),
                "gloo",
                std::to_string(kLongTimeoutMs)},
               // Heartbeats of 300 ms; no operation is late; 1.2 s have passed when rank 2 dies.
               {.environment = {"MUSTER_FAULTS=delay=150ms;kill@rank=2,op=all_reduce,at=5"}});
  EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
  for (const int rank : {0, 1, 3}) {
    const std::string said = stderr_of(job, rank);
    EXPECT_THAT(said, HasSubstr("rank 2 is gone")) << job.err();
    EXPECT_THAT(said, Not(HasSubstr("sign of life")));
  }
}

TEST(FlightRecord, IsLeftByEverySurvivor) {
  const auto folder = std::filesystem::temp_directory_path() / concat("muster-flight-", ::getpid());
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--shutdown-timeout",
                "30",
                "--",
                test::program_path("muster_monitored_rank"),
                "gloo",
                std::to_string(kLongTimeoutMs)},
               {.environment = {"MUSTER_FAULTS=skip@rank=1,op=broadcast,at=3",
                                "MUSTER_FLIGHT_DIR=" + folder.string()}});
  EXPECT_EQ(job.wait(kLimit).code, 1);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string record = read_file(folder / concat("default-rank-", rank, ".json"));
    EXPECT_THAT(record,
                AllOf(HasSubstr("\"format\": \"muster-flight/1\""),
                      HasSubstr("rank 0 is at broadcast root 0 int64[4] #5 while rank 1 is "
                                "at all_reduce sum float32[1000] #5")));
    EXPECT_THAT(stderr_of(job, rank), HasSubstr("flight record: " + folder.string()));
  }
  std::filesystem::remove_all(folder);
}

/// How a rank may end of its own exception, and what its record then says of that.
struct Culprit {
  std::string how, says;
};

class FlightRecordOfTheCulprit : public ::testing::TestWithParam<Culprit> {};

TEST_P(FlightRecordOfTheCulprit, SaysWhatItEndedOf) {
  for (const char* backend : {"gloo", "shm"}) {
    SCOPED_TRACE(backend);
    const test::Folder folder;
    Launched job({"run",
                  "--nproc-per-node",
                  "2",
                  "--",
                  test::program_path("muster_failing_rank"),
                  backend,
                  concat("go-on,", GetParam().how, ":1")},
                 {.environment = {"MUSTER_FLIGHT_DIR=" + folder.path().string()}});
    EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
    EXPECT_THAT(read_file(folder.path() / "default-rank-1.json"),
                AllOf(HasSubstr(concat("\"verdict\": \"", GetParam().says, "\"")),
                      HasSubstr("all_reduce sum float32[1000]")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Hows,
    FlightRecordOfTheCulprit,
    ::testing::Values(Culprit{"throw", "rank 1 failed by itself: std::runtime_error: my own error"},
                      Culprit{"catch",
                              "rank 1 failed by itself: an exception ended its part in the group"},
                      Culprit{"note", "rank 1 failed by itself: my own error"}),
    [](const auto& info) { return info.param.how; });

// Its destructor ran while the exception was on its way: that is not the orderly end of a rank.
TEST(Monitor, TellsThatAnExceptionTookARankOutOfTheGroup) {
  for (const char* backend : {"gloo", "shm"}) {
    Launched job({"run",
                  "--nproc-per-node",
                  "2",
                  "--shutdown-timeout",
                  "1",
                  "--",
                  test::program_path("muster_failing_rank"),
                  backend,
                  "go-on,catch:60000"});
    EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
    EXPECT_THAT(stderr_of(job, 0),
                HasSubstr("rank 1 failed: an exception ended its part in the group"))
        << backend;
  }
}

// A laptop that is closed, a virtual machine that is moved: nobody ran, so nobody was late.
TEST(ShmRanks, ThatWereAllStoppedForLongerThanTheTimeoutGoOn) {
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--",
                test::program_path("muster_monitored_rank"),
                "shm",
                "2500",
                "25"},
               {.environment = {"MUSTER_FAULTS=delay=100ms@rank=1"}});  // rank 0 mostly waits
  ASSERT_TRUE(job.wait_for("is pid", 2)) << job.err();
  const std::vector<pid_t> ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  for (const int signal : {SIGSTOP, SIGCONT}) {
    ::poll(nullptr, 0, signal == SIGSTOP ? 700 : 4000);
    for (const pid_t rank : ranks) EXPECT_EQ(::kill(rank, signal), 0) << "it has ended before";
  }
  EXPECT_EQ(job.wait(kLimit).code, 0) << job.err();
}

// Rank 0 serves the store, with which the others can do without: it is 15 heartbeats ahead.
TEST(RankZero, MayReturnBeforeThoseWhoDoNotNeedItAnyMore) {
  for (const char* backend : {"gloo", "shm"}) {
    Launched job({"run",
                  "--nproc-per-node",
                  "3",
                  "--",
                  test::program_path("muster_failing_rank"),
                  backend,
                  "leave,send:1500,receive"});
    // c10d may warn that the store is gone; that is all.
    EXPECT_EQ(job.wait(kLimit).code, 0) << backend << ": " << job.err();
    EXPECT_THAT(job.err(), Not(HasSubstr("error: ")));
  }
}

// Whether it is the one that serves the store or another one, nobody waits for it (a minute).
TEST(Ranks, ThatEndBeforeTheyMeetTheOthersAreNamed) {
  const auto job_without = [](int rank) {
    const std::string program = test::program_path("muster_monitored_rank") + " gloo 20000";
    Launched job({"run",
                  "--nproc-per-node",
                  "3",
                  "--",
                  "sh",
                  "-c",
                  concat("[ $RANK = ", rank, " ] || exec ", program)});
    EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
    return job.err();
  };
  EXPECT_THAT(job_without(0),
              AllOf(HasSubstr("error: no answer from rank 0 at "),
                    HasSubstr("it has ended before this rank met it")));
  EXPECT_THAT(job_without(2),
              HasSubstr("rank 2 has ended and did not come to the meeting of ranks"));
}

// It serves the store: who has been in a group of the job knows that it was there.
TEST(RankZero, ThatHasEndedIsNamedToWhoComesToTheNextGroup) {
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--",
                test::program_path("muster_failing_rank"),
                "gloo",
                "leave,again"});
  EXPECT_EQ(job.wait(kLimit).code, 1) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("error: the store of the job is gone: rank 0, which served it"));
  EXPECT_THAT(job.err(), HasSubstr("has ended"));
}

TEST(Monitor, IsSilentWhenNothingFails) {
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--",
                test::program_path("muster_monitored_rank"),
                "gloo",
                "20000"});
  EXPECT_EQ(job.wait().code, 0) << job.err();
  EXPECT_THAT(job.err(), Not(HasSubstr("error")));
}

}  // namespace
}  // namespace muster::testing_process
