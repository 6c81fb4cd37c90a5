// A checkpoint gets the plan of the start that goes on from it, whole at any moment.
#include "muster/train/checkpoints/kept_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/run_folder.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/checkpoints/kill_at_change.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using train::kept_plan;

const Json kPlanOfStart = {{"epochs", 2}, {"lr", 0.1}};
const Json kPlanTold = {{"epochs", 5}, {"lr", 0.1}};

void save_planned(const fs::path& run, int64_t step) {
  train::Checkpoint checkpoint;
  checkpoint.position = {.step = step};
  checkpoint.global_batch = 16;
  checkpoint.plan = kPlanOfStart;
  checkpoint.loop = {{"loss_sum", 0.1}};
  checkpoint.model = {{"w", torch::full({3}, static_cast<double>(step))}};
  train::write_checkpoint(run, checkpoint);
}

TEST(KeptPlan, IsThatOfTheCheckpointThatLatestNamesAndLeavesTheRest) {
  const test::Folder folder, other;
  for (const int64_t step : {10, 20}) save_planned(folder.path(), step);
  const fs::path latest = train::checkpoint_folder(folder.path(), 20);
  // As a run that goes on elsewhere has it.
  fs::create_hard_link(latest / "state.json", other.path() / "state.json");
  const std::string before = read_file(other.path() / "state.json");
  EXPECT_EQ(kept_plan(folder.path()), kPlanOfStart);
  train::keep_plan(latest, kPlanTold);
  EXPECT_EQ(kept_plan(folder.path()), kPlanTold);
  const train::Checkpoint told = train::load_checkpoint(folder.path());
  EXPECT_EQ(told.plan, kPlanTold);
  EXPECT_EQ(told.position.step, 20);
  EXPECT_EQ(told.loop, (Json{{"loss_sum", 0.1}}));
  EXPECT_EQ(told.model[0].second[0].item<double>(), 20);
  EXPECT_TRUE(told.has_checksum);
  EXPECT_EQ(train::read_checkpoint(train::checkpoint_folder(folder.path(), 10)).plan, kPlanOfStart);
  EXPECT_EQ(read_file(other.path() / "state.json"), before);
  train::keep_plan(latest, kPlanOfStart);
  EXPECT_EQ(read_file(latest / "state.json"), before);
}

TEST(KeptPlan, IsNoneWhereNoneCanBeRead) {
  const test::Folder folder;
  EXPECT_EQ(kept_plan(folder.path()), std::nullopt);
  train::keep_plan(train::checkpoint_folder(folder.path(), 10), kPlanTold);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  save_planned(folder.path(), 10);
  const fs::path latest = train::checkpoint_folder(folder.path(), 10);
  const std::string damaged = read_file(latest / "state.json") + "\n";
  write_file_atomic(latest / "state.json", damaged);
  EXPECT_EQ(kept_plan(folder.path()), std::nullopt);
  EXPECT_NE(test::error_of([&] { train::keep_plan(latest, kPlanTold); }), test::kNoError);
  EXPECT_EQ(read_file(latest / "state.json"), damaged);
}

TEST(KeptPlan, AKillWhileItIsPutThereLeavesAWholeCheckpointWithOneOfBoth) {
  const auto make = [](const fs::path& place) { save_planned(place / "a", 10); };
  const auto tell = [](const fs::path& place) {
    const train::Checkpoint from = train::load_checkpoint(place / "a");
    train::RunFolder run(place / "b");
    run.prepare(&from);
    train::keep_plan(train::checkpoint_folder(place / "b", 10), kPlanTold);
  };
  test::kill_at_each_change(make, tell, [&](const fs::path& place) {
    EXPECT_EQ(train::load_checkpoint(place / "a").plan, kPlanOfStart);
    if (fs::exists(place / "b" / "latest")) {
      EXPECT_THAT(train::load_checkpoint(place / "b").plan, AnyOf(kPlanOfStart, kPlanTold));
    }
    if (!fs::exists(place / "b" / "latest")) tell(place);  // the same command again
  });
}

}  // namespace
}  // namespace muster
