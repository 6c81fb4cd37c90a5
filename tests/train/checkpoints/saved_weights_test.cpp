// Which weights of a run somebody gets who looks at it.
#include "muster/train/checkpoints/saved_weights.h"

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using train::read_weights;

/// A checkpoint whose only weight is its step.
train::Checkpoint of_step(int64_t step, int64_t best, const char* test_weights = "last") {
  train::Checkpoint checkpoint{.position = {.step = step}, .global_batch = 8, .best_step = best};
  checkpoint.plan["test_weights"] = test_weights;
  checkpoint.model.emplace_back("weight", torch::full({1000}, static_cast<float>(step)));
  checkpoint.optimizer.emplace_back("momentum", torch::zeros({3}));
  return checkpoint;
}

float weight_of(const train::Checkpoint& checkpoint) {
  return checkpoint.model.at(0).second[0].item<float>();
}

TEST(SavedWeights, AreTheLastTheBestOrThoseOfACheckpoint) {
  const test::Folder folder;
  const fs::path run = folder.path();
  for (const int64_t step : {1, 2, 3})
    train::write_checkpoint(run, of_step(step, step > 1 ? 2 : -1));
  EXPECT_EQ(weight_of(read_weights(run, "last")), 3);
  EXPECT_EQ(weight_of(read_weights(run, "best")), 2);
  EXPECT_EQ(weight_of(read_weights(run, "step-1")), 1);
  EXPECT_EQ(weight_of(read_weights(run, run / "checkpoints" / "step-1" / "")), 1);
  EXPECT_EQ(weight_of(read_weights(run, "")), 3) << "the run tests with its last weights";
  EXPECT_EQ(read_weights(run, "").position.step, 3);
  train::write_checkpoint(run, of_step(4, 2, "best"));
  EXPECT_EQ(weight_of(read_weights(run, "")), 2) << "the run tests with its best weights";
  EXPECT_EQ(weight_of(read_weights(run, "last")), 4);
  fs::remove(run / "latest");
  EXPECT_EQ(weight_of(read_weights(run, "best")), 2) << "it is named by a file of its own";
}

TEST(SavedWeights, NeedNeitherOptimizerNorGenerators) {
  const test::Folder folder;
  const fs::path step = train::write_checkpoint(folder.path(), of_step(1, -1));
  fs::remove(step / "optimizer.safetensors");
  fs::remove(step / "rng.safetensors");
  const train::Checkpoint read = read_weights(folder.path(), "");
  EXPECT_EQ(weight_of(read), 1);
  EXPECT_TRUE(read.optimizer.empty());
}

TEST(SavedWeights, RefusesWhatIsNoRunOrHasNone) {
  const test::Folder folder;
  const fs::path run = folder.path() / "a";
  const auto refusal = [&](const fs::path& path, const std::string& which) {
    return test::refusal_of([&] { read_weights(path, which); });
  };
  EXPECT_THAT(refusal(run, ""),
              HasSubstr(concat("no run in ", run.string(), ": there is no such")));
  EXPECT_THAT(refusal(folder.path(), ""), HasSubstr("a run's folder has a file `latest`"));
  const fs::path step = train::write_checkpoint(run, of_step(1, -1));
  EXPECT_THAT(refusal(step, ""), HasSubstr("is a checkpoint"));
  EXPECT_THAT(refusal(step, ""), HasSubstr(concat(run.string(), " --weights step-1")));
  EXPECT_THAT(refusal(run, "best"), HasSubstr("no epoch was the best so far"));
  EXPECT_THAT(refusal(run, "step-9"), HasSubstr("it has step-1"));
  fs::remove(step / "model.safetensors");
  EXPECT_THAT(refusal(run, ""), HasSubstr("model.safetensors is missing"));
  std::ofstream(run / "latest") << "nonsense\n";
  EXPECT_THAT(refusal(run, ""), HasSubstr("names a folder step-N (got \"nonsense\")"));
}

TEST(SavedWeights, AreThoseOfAnotherCheckpointWhereTheLastIsLost) {
  const test::Folder folder;
  const fs::path run = folder.path();
  for (const int64_t step : {4, 8, 12}) train::write_checkpoint(run, of_step(step, -1));
  fs::remove_all(run / "checkpoints" / "step-12");
  const auto refusal = [&](const std::string& which) {
    return test::refusal_of([&] { read_weights(run, which); });
  };
  const std::string hint = "hint: the run has step-8, step-4: take --weights step-8";
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("state.json is missing"), HasSubstr(hint)));
  EXPECT_THAT(refusal("last"), HasSubstr(hint));
  EXPECT_EQ(weight_of(read_weights(run, "step-8")), 8);
  std::ofstream(run / "latest") << "nonsense\n";
  EXPECT_THAT(refusal("last"), AllOf(HasSubstr("(got \"nonsense\")"), HasSubstr(hint)));
  fs::remove(run / "latest");
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("no run in"), HasSubstr(hint)));
  EXPECT_EQ(weight_of(read_weights(run, "step-4")), 4) << "it needs no `latest`";
  EXPECT_THAT(refusal("step-12"), HasSubstr("it has step-8, step-4"));
  EXPECT_THAT(refusal(std::string(300, 'a')), HasSubstr("it has step-8, step-4"));
}

TEST(SavedWeights, OfNoAveragesAreNoReasonToTakeAnotherCheckpoint) {
  const test::Folder folder;
  for (const int64_t step : {1, 2}) train::write_checkpoint(folder.path(), of_step(step, -1));
  const std::string said = test::refusal_of([&] { read_weights(folder.path(), "ema"); });
  EXPECT_THAT(said, AllOf(HasSubstr("--ema-decay"), Not(HasSubstr("step-1"))));
}

TEST(SavedWeights, AreWholeWhileTheRunWritesAndRemovesCheckpoints) {
  const test::Folder folder;
  const fs::path run = folder.path();
  train::write_checkpoint(run, of_step(1, -1));
  constexpr int64_t kSteps = 60;
  std::thread writer([&] {
    for (int64_t step = 2; step <= kSteps; ++step) {
      train::write_checkpoint(run, of_step(step, -1));
      train::remove_old_checkpoints(run, 1);  // the reader's may be among them
    }
  });
  std::string error = test::kNoError;
  for (int64_t last = 0; last < kSteps && error == test::kNoError;) {
    error = test::error_of([&] {
      const train::Checkpoint read = read_weights(run, "last");
      EXPECT_EQ(weight_of(read), static_cast<float>(read.position.step));
      EXPECT_GE(read.position.step, last);
      last = read.position.step;
    });
  }
  writer.join();
  EXPECT_EQ(error, test::kNoError);
}

}  // namespace
}  // namespace muster
