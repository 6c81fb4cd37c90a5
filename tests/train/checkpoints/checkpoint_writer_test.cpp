// Checkpoints that a thread of their own writes: what they hold, and what becomes of an error.
#include "muster/train/checkpoints/checkpoint_writer.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Checkpoint checkpoint_at(int64_t step, const torch::Tensor& weights) {
  Checkpoint checkpoint;
  checkpoint.position = {.step = step};
  checkpoint.global_batch = 8;
  checkpoint.model = {{"w", weights}};
  checkpoint.optimizer = {{"momentum/w", torch::full({1 << 16}, static_cast<double>(step))}};
  checkpoint.rng = {{"rank.0", torch::ones({4}, torch::kByte)}};
  checkpoint.more["ema"] = {{"w", weights}};
  return checkpoint;
}

TEST(CheckpointWriter, HoldsTheTensorsAsTheyWereWhenItWasStarted) {
  const test::Folder folder;
  CheckpointWriter writer(folder.path(), 4);
  const torch::Tensor weights = torch::zeros({1 << 16});
  for (int64_t step = 1; step <= 4; ++step) {
    weights.fill_(step);
    writer.start(checkpoint_at(step, weights));
    weights.fill_(-1);  // the training goes on while it is written
  }
  EXPECT_EQ(writer.wait(), checkpoint_folder(folder.path(), 4));
  for (int64_t step = 1; step <= 4; ++step) {
    const Checkpoint back = read_checkpoint(checkpoint_folder(folder.path(), step));
    const torch::Tensor expected = torch::full({1 << 16}, static_cast<double>(step));
    EXPECT_TRUE(torch::equal(back.model.at(0).second, expected)) << step;
    EXPECT_TRUE(torch::equal(back.optimizer.at(0).second, expected)) << step;
    EXPECT_TRUE(torch::equal(back.more.at("ema").at(0).second, expected)) << step;
  }
}

TEST(CheckpointWriter, KeepsAsManyAsItWasTold) {
  const test::Folder folder;
  CheckpointWriter writer(folder.path(), 2);
  for (const int64_t step : {10, 20, 30, 40}) writer.start(checkpoint_at(step, torch::ones({3})));
  writer.wait();
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(40, 30));
}

TEST(CheckpointWriter, WritesWhatItHasInHandBeforeItGoes) {
  const test::Folder folder;
  {
    CheckpointWriter writer(folder.path(), 2);
    writer.start(checkpoint_at(7, torch::ones({1 << 16})));
  }
  EXPECT_EQ(read_checkpoint(find_checkpoint(folder.path())).position.step, 7);
}

TEST(CheckpointWriter, SaysOnceAtTheNextCallWhatWentWrong) {
  const test::Folder folder;
  write_file_atomic(folder.path() / "checkpoints", "a file where a folder is to be");
  CheckpointWriter writer(folder.path(), 2);
  writer.start(checkpoint_at(1, torch::ones({3})));
  EXPECT_THAT(
      test::muster_error_of([&] { writer.start(checkpoint_at(2, torch::ones({3}))); }).what(),
      HasSubstr("checkpoints"));
  EXPECT_TRUE(writer.wait().empty());
  std::filesystem::remove(folder.path() / "checkpoints");
  writer.start(checkpoint_at(3, torch::ones({3})));
  EXPECT_EQ(writer.wait(), checkpoint_folder(folder.path(), 3));
}

}  // namespace
}  // namespace muster::train
