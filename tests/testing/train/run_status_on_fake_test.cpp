// What a training says of itself for `muster gpu`.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/train/program/run_status.h"

#include "tests/support/folder.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::train {
namespace {

using diagnose::PublishedState;
using test::kFake0;
using test::kFake1;
using testing::FakeAccelerator;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RunStatusFile : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("MUSTER_STATUS_DIR", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("MUSTER_STATUS_DIR"); }

  std::vector<PublishedState> states() const {
    return diagnose::read_published(diagnose::status_folder()).states;
  }

 private:
  test::Folder folder_;
};

TEST_F(RunStatusFile, HasTheStepAndEachDeviceOnce) {
  const FakeAccelerator fake({.devices = 2});
  const at::Tensor held = torch::zeros({1 << 20}, kFake1);
  FitPlan plan;
  plan.threads = 3;
  plan.devices = {kFake0, kFake1, kFake1};
  int64_t heard = 0;
  FitCallbacks callbacks{.epoch_began = [&](const HookPlace&) { ++heard; },
                         .step_ended = [&](const StepEnd&) { ++heard; }};
  {
    RunStatus status("a program", plan, {});
    status.attach(callbacks);
    ASSERT_THAT(states(), SizeIs(1));
    EXPECT_EQ(states()[0].doing, "begins");
    callbacks.epoch_began({.rank = 1, .step = 5, .epoch = 2});
    EXPECT_EQ(states()[0].doing, "begins") << "rank 0 speaks for all threads";
    callbacks.epoch_began({.rank = 0, .step = 5, .epoch = 2});
    ASSERT_THAT(states(), SizeIs(1));
    const PublishedState said = states()[0];
    EXPECT_EQ(said.program, "a program");
    EXPECT_EQ(said.doing, "epoch 2 begins");
    EXPECT_EQ(said.world_size, 3);
    ASSERT_THAT(said.devices, SizeIs(2));
    EXPECT_EQ(said.devices[1].name, "fake:1");
    EXPECT_EQ(said.devices[1].allocated_bytes, 4U << 20);
    callbacks.step_ended({.at = {.rank = 0, .step = 6, .epoch = 2}});
    EXPECT_EQ(states()[0].doing, "epoch 2 begins") << "not after every step";
    ASSERT_TRUE(callbacks.evaluated) << "which nobody else wanted to hear";
    callbacks.evaluated({.at = {.rank = 0, .step = 6, .epoch = 2}, .phase = Phase::kValidate});
    EXPECT_EQ(states()[0].doing, "epoch 2, validate ended");
  }
  EXPECT_EQ(heard, 3);
  EXPECT_THAT(states(), SizeIs(0)) << "its file goes with it";
}

TEST_F(RunStatusFile, OfARankOnTheCpuHasNoDevice) {
  const FitPlan plan;
  FitCallbacks callbacks;
  RankEnv env;
  env.rank = 3, env.world_size = 4;
  RunStatus status("muster train", plan, env);
  status.attach(callbacks);
  callbacks.evaluated({.at = {.rank = 3, .step = 7, .epoch = 1}, .phase = Phase::kTest});
  ASSERT_THAT(states(), SizeIs(1));
  EXPECT_EQ(states()[0].rank, 3);
  EXPECT_EQ(states()[0].doing, "epoch 1, test ended");
  EXPECT_THAT(states()[0].devices, SizeIs(0));
}

// A folder that cannot be written costs nothing but the line.
TEST_F(RunStatusFile, WhereNoneCanBeWrittenTheHooksAreAsTheyWere) {
  ::setenv("MUSTER_STATUS_DIR", "/proc/none", 1);
  FitCallbacks callbacks;
  const FitPlan plan;
  RunStatus status("muster train", plan, {});
  status.attach(callbacks);
  EXPECT_FALSE(callbacks.step_ended);
  EXPECT_THAT(status.why_not(), HasSubstr("`muster gpu` does not show this run: "));
  ::unsetenv("MUSTER_STATUS_DIR");
  EXPECT_EQ(status.why_not(), "") << "nobody has asked for it";
}

}  // namespace
}  // namespace muster::train
