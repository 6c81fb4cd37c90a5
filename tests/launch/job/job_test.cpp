#include "muster/launch/job/job.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/rank_variables.h"
#include "muster/launch/job/rank_plan.h"

namespace muster::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

JobSpec two_nodes() {
  return {.argv = {"x"},
          .nproc_per_node = 4,
          .nnodes = 2,
          .node_rank = 1,
          .master_addr = "host0",
          .master_port = 4711,
          .run_id = "mine"};
}

std::string refusal(JobSpec spec) {
  try {
    check(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(JobSpec, IsCheckedBeforeAnythingStarts) {
  EXPECT_EQ(refusal(two_nodes()), "accepted");
  EXPECT_THAT(refusal({}), HasSubstr("no program"));
  EXPECT_THAT(refusal({.argv = {"x"}, .nproc_per_node = 0}), HasSubstr("--nproc-per-node 0"));
  EXPECT_THAT(refusal({.argv = {"x"}, .nnodes = 0}), HasSubstr("--nnodes 0"));
  // Ranks are numbered by ints: such products would wrap.
  for (const int64_t nnodes :
       {int64_t{65537}, int64_t{1} << 62, std::numeric_limits<int64_t>::max()})
    EXPECT_THAT(refusal({.argv = {"x"}, .nproc_per_node = 2, .nnodes = nnodes, .master_port = 1}),
                HasSubstr("a job has 1 to 65536 of them"));
  EXPECT_THAT(refusal({.argv = {"x"}, .nproc_per_node = 100000}),
              HasSubstr("--nproc-per-node 100000"));
  EXPECT_THAT(refusal({.argv = {"x"}, .nnodes = 2, .node_rank = 2, .master_port = 1}),
              HasSubstr("numbered 0 to 1"));
  EXPECT_THAT(refusal({.argv = {"x"}, .nnodes = 2}), HasSubstr("--rdzv-endpoint"));
  EXPECT_THAT(refusal({.argv = {"x"}, .master_port = 70000}), HasSubstr("70000"));
  EXPECT_THAT(refusal({.argv = {"x"}, .run_id = "../x"}), HasSubstr("no slash"));
  EXPECT_THAT(refusal({.argv = {"x"}, .max_restarts = -1}), HasSubstr("--max-restarts -1"));
  EXPECT_THAT(refusal({.argv = {"x"}, .shutdown_timeout_s = -1}),
              HasSubstr("--shutdown-timeout -1"));
}

TEST(RankEnvironment, NumbersRanksOverAllNodes) {
  const auto env = rank_environment(two_nodes(), {.restart_count = 3, .master_port = 4711}, 2, {});
  for (const char* variable : {"RANK=6",
                               "LOCAL_RANK=2",
                               "WORLD_SIZE=8",
                               "LOCAL_WORLD_SIZE=4",
                               "GROUP_RANK=1",
                               "GROUP_WORLD_SIZE=2",
                               "ROLE_RANK=6",
                               "ROLE_WORLD_SIZE=8",
                               "ROLE_NAME=default",
                               "MASTER_ADDR=host0",
                               "MASTER_PORT=4711",
                               "TORCHELASTIC_RESTART_COUNT=3",
                               "TORCHELASTIC_RUN_ID=mine",
                               "TORCHELASTIC_USE_AGENT_STORE=False",
                               "OMP_NUM_THREADS=1"}) {
    EXPECT_THAT(env, Contains(variable));
  }
}

TEST(RankEnvironment, OfSeveralMachinesHoldsNothingThatOneOfThemMadeUp) {
  JobSpec spec = two_nodes();
  spec.run_id = "";
  const std::vector<std::string> inherited{"MUSTER_JOB_KEY=of-the-user"};
  const auto env = rank_environment(spec, {.master_port = 1}, 0, inherited);
  EXPECT_THAT(env, Contains("TORCHELASTIC_RUN_ID=none"));
  EXPECT_THAT(env, Contains("MUSTER_JOB_KEY=of-the-user"));
}

TEST(RankEnvironment, HoldsTheKeyOfTheJobAndNotThatOfAnOuterOne) {
  const std::vector<std::string> inherited{"MUSTER_JOB_KEY=outer"};
  const auto env =
      rank_environment({.argv = {"x"}}, {.master_port = 1, .job_key = "mine"}, 0, inherited);
  EXPECT_THAT(env, Contains("MUSTER_JOB_KEY=mine"));
  EXPECT_THAT(env, Not(Contains("MUSTER_JOB_KEY=outer")));
}

TEST(RankEnvironment, ReplacesWhatAnOuterLauncherSet) {
  const std::vector<std::string> inherited{
      "RANK=9", "HOME=/root", "MUSTER_PROGRESS_FD=3", "TORCHELASTIC_ERROR_FILE=/outer"};
  const auto env = rank_environment(two_nodes(), {.master_port = 1}, 0, inherited);
  EXPECT_THAT(env, Contains("HOME=/root"));
  EXPECT_THAT(env, Contains("RANK=4"));
  EXPECT_THAT(env, Not(Contains("RANK=9")));
  // Rank 4 has no progress pipe, and without logs there is no error file.
  EXPECT_THAT(env, Not(Contains(StartsWith("MUSTER_PROGRESS_FD"))));
  EXPECT_THAT(env, Not(Contains(StartsWith("TORCHELASTIC_ERROR_FILE"))));
}

// Else what a rank starts, and that strips itself of them, would still pass for a rank.
TEST(RankEnvironment, IsOfTheVariablesThatAreKnownToMakeARank) {
  const std::vector<std::string> names = rank_variables();
  for (const std::string& variable :
       rank_environment({.argv = {"x"}, .nproc_per_node = 2},
                        {.master_port = 1, .log_folder = "/logs", .job_key = "mine"},
                        0,
                        {})) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name == "OMP_NUM_THREADS" || name == "PYTHONUNBUFFERED") continue;  // good for all
    EXPECT_THAT(names, Contains(name));
  }
}

TEST(RankEnvironment, LeavesThreadsToTheUserWhoSetThem) {
  const std::vector<std::string> inherited{"OMP_NUM_THREADS=7", "PYTHONUNBUFFERED="};
  const auto env = rank_environment(two_nodes(), {.master_port = 1}, 0, inherited);
  EXPECT_THAT(env, Contains("OMP_NUM_THREADS=7"));
  EXPECT_THAT(env, Contains("PYTHONUNBUFFERED="));
  EXPECT_EQ(std::count_if(
                env.begin(), env.end(), [](const std::string& v) { return v.starts_with("OMP_"); }),
            1);
}

TEST(RankEnvironment, LeavesThreadsAloneForOneRank) {
  const auto env = rank_environment({.argv = {"x"}}, {.master_port = 1}, 0, {});
  EXPECT_THAT(env, Not(Contains(StartsWith("OMP_NUM_THREADS"))));
}

TEST(RankEnvironment, GivesTheFirstRankTheProgressPipeAndEachAnErrorFile) {
  const auto env =
      rank_environment({.argv = {"x"}}, {.master_port = 1, .log_folder = "/logs/a"}, 0, {});
  EXPECT_THAT(env, Contains("MUSTER_PROGRESS_FD=3"));
  EXPECT_THAT(env, Contains("TORCHELASTIC_ERROR_FILE=/logs/a/0/error.json"));
  EXPECT_THAT(env, Contains("MUSTER_ENDED_RANKS=/logs/a/ended"));
}

}  // namespace
}  // namespace muster::launch
