#include "muster/base/rank_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/rank_variables.h"

#include "tests/support/variables.h"

namespace muster {
namespace {

using test::lookup_in;
using test::Variables;
using ::testing::HasSubstr;

std::string environment_refusal(const Variables& variables) {
  try {
    rank_env_from(lookup_in(variables));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(RankEnv, IsNothingForAProgramStartedAlone) {
  EXPECT_FALSE(rank_env_from(lookup_in({})).has_value());
  EXPECT_FALSE(rank_env_from(lookup_in({{"MASTER_PORT", "rubbish"}})).has_value());
}

TEST(RankEnv, SurvivesTheWayThroughTheEnvironment) {
  const RankEnv sent{.rank = 5,
                     .world_size = 8,
                     .local_rank = 1,
                     .local_world_size = 4,
                     .group_rank = 1,
                     .group_world_size = 2,
                     .role_rank = 5,
                     .role_world_size = 8,
                     .role_name = "trainer",
                     .master_addr = "host0",
                     .master_port = 4711,
                     .restart_count = 2,
                     .max_restarts = 3,
                     .run_id = "mine",
                     .use_agent_store = true};
  Variables variables;
  for (const auto& [name, value] : to_environment(sent)) variables[name] = value;
  const auto got = rank_env_from(lookup_in(variables));
  ASSERT_TRUE(got);
  EXPECT_EQ(to_environment(*got), to_environment(sent));
}

// The names that torchrun sets for a worker:
// torch/distributed/elastic/agent/server/local_elastic_agent.py, less the error file, which is the
// launcher's.
TEST(RankEnv, SetsTorchrunsNames) {
  std::vector<std::string> names;
  for (const auto& [name, value] : to_environment({})) names.push_back(name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("LOCAL_RANK",
                                              "RANK",
                                              "GROUP_RANK",
                                              "ROLE_RANK",
                                              "ROLE_NAME",
                                              "LOCAL_WORLD_SIZE",
                                              "WORLD_SIZE",
                                              "GROUP_WORLD_SIZE",
                                              "ROLE_WORLD_SIZE",
                                              "MASTER_ADDR",
                                              "MASTER_PORT",
                                              "TORCHELASTIC_RESTART_COUNT",
                                              "TORCHELASTIC_MAX_RESTARTS",
                                              "TORCHELASTIC_RUN_ID",
                                              "TORCHELASTIC_USE_AGENT_STORE",
                                              "TORCHELASTIC_SIGNALS_TO_HANDLE",
                                              "TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

TEST(RankVariables, AreAllThatALauncherSetsForARank) {
  std::vector<std::string> names = rank_variables();
  for (const auto& [name, value] : to_environment({})) EXPECT_EQ(std::erase(names, name), 1U);
  EXPECT_THAT(
      names,
      ::testing::UnorderedElementsAre(
          "TORCHELASTIC_ERROR_FILE", "MUSTER_PROGRESS_FD", "MUSTER_JOB_KEY", "MUSTER_ENDED_RANKS"));
}

TEST(RankEnv, FillsWhatASmallLauncherLeavesOut) {
  const auto env =
      rank_env_from(lookup_in({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}));
  ASSERT_TRUE(env);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->master_addr, "127.0.0.1");
  EXPECT_EQ(env->master_port, 29500);
  EXPECT_FALSE(env->use_agent_store);
}

TEST(RankEnv, RefusesHalfOfThePair) {
  EXPECT_THAT(environment_refusal({{"RANK", "0"}}), HasSubstr("RANK is set and WORLD_SIZE is not"));
  EXPECT_THAT(environment_refusal({{"WORLD_SIZE", "2"}}),
              HasSubstr("WORLD_SIZE is set and RANK is not"));
}

TEST(RankEnv, RefusesNumbersOutsideTheirRange) {
  EXPECT_THAT(environment_refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(environment_refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(environment_refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK=-1"));
  EXPECT_THAT(environment_refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK=x"));
  EXPECT_THAT(environment_refusal({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "65536"}}),
              HasSubstr("from 1 to 65535"));
  EXPECT_THAT(environment_refusal({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "2"}}),
              HasSubstr("LOCAL_WORLD_SIZE=2"));
}

TEST(RankEnv, ReadsThisProcessByDefault) {
  ::setenv("MUSTER_RANK_ENV_TEST", "here", 1);
  EXPECT_EQ(process_environment("MUSTER_RANK_ENV_TEST"), "here");
  EXPECT_EQ(process_environment("MUSTER_RANK_ENV_TEST_NOT"), std::nullopt);
}

}  // namespace
}  // namespace muster
