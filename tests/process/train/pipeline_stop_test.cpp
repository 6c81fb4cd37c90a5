// A rank of a pipeline that stands still, wherever it is: the others wait for it as long as stall_timeout
// says, and name it.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/train/train_words.h"
#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct Stop {
  const char* name;
  const char* call;  // before which the rank stops
};

class StoppedPipelineRank : public ::testing::TestWithParam<Stop> {};

// The group's own timeout is half an hour: the limit of the test is far from both.
TEST_P(StoppedPipelineRank, IsNamedByTheOthersWhereverTheyWait) {
  const test::Words words =
      test::on_ranks(3,
                     {"train",
                      "--data",
                      "synthetic:samples=220,test_samples=60,size=8,classes=4",
                      "--model",
                      "mlp:hidden=16,layers=3",
                      "--batch-size",
                      "12",
                      "--workers",
                      "0",
                      "--strategy",
                      "pipeline:split=0/1/2,timeout=6,stall_timeout=8"});
  Launched job(words, {.environment = {concat("MUSTER_FAULTS=stop@rank=1,", GetParam().call)}});
  EXPECT_EQ(job.wait(std::chrono::minutes(3)).code, 1) << job.err();
  EXPECT_TRUE(job.nothing_left());
  for (const int rank : {0, 2})
    EXPECT_THAT(stderr_of(job, rank), ContainsRegex("rank ([02], )?1(, 2)? did not come"));
  // The first of them ends before its launcher lets the stopped one go on.
  EXPECT_THAT(job.err(), HasSubstr("rank 1 is stopped (SIGSTOP or a debugger)"));
}

INSTANTIATE_TEST_SUITE_P(Before,
                         StoppedPipelineRank,
                         ::testing::Values(Stop{"AStep", "op=all_gather,step=5,at=1"},
                                           Stop{"AMessage", "op=recv,step=5,at=2"},
                                           Stop{"TheEndOfAStep", "op=all_gather,step=5,at=2"},
                                           Stop{"TheSumOfAStep", "op=all_reduce,step=5,at=1"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster::testing_process
