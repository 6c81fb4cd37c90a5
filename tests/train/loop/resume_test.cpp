// Exact resume on ranks that are threads: with the same ranks bit for bit, with others sample for
// sample.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/metrics_rows.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using test::expect_same_state;
using test::Ran;
using test::run;
using test::small_run;

/// ranks, loader workers, steps before the break
class Breaks : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Breaks, EndsBitEqualToAnUnbrokenRun) {
  const auto& [world, workers, steps] = GetParam();
  train::TrainOptions options = small_run();
  options.optimizer = world == 1 ? "adamw" : "sgd";
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run(options, world, whole_folder.path());
  options.workers = workers;
  const Ran broken = run(options, world, broken_folder.path(), {}, steps);
  ASSERT_TRUE(broken.result.interrupted);
  ASSERT_EQ(broken.last.position.step, steps);
  const Ran resumed = run(options, world, broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
  EXPECT_EQ(resumed.result.test.metrics["loss"], whole.result.test.metrics["loss"]);
  EXPECT_EQ(resumed.result.test.metrics["accuracy"], whole.result.test.metrics["accuracy"]);

  // The metrics of both runs tell the same story, but for times.
  EXPECT_EQ(test::rows_without_time(broken_folder.path()),
            test::rows_without_time(whole_folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Resume,
                         Breaks,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(0, 3),
                                            ::testing::Values(1, 7, 13, 20)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::to_string(std::get<1>(info.param)) + "_workers_after_" +
                                  std::to_string(std::get<2>(info.param)) + "_steps";
                         });

// What is random about a sample hangs on where it is in the run, not on who has read what before.
TEST(Resume, RandomTransformsGoOnAsInAnUnbrokenRunWithOtherWorkers) {
  train::TrainOptions options = small_run();
  options.train_transform = "random_crop:padding=1|random_horizontal_flip";
  for (const int world : {1, 2}) {
    const test::Folder whole_folder, broken_folder;
    const Ran whole = run(options, world, whole_folder.path());
    train::TrainOptions other = options;
    other.workers = 2;
    const Ran broken = run(other, world, broken_folder.path(), {}, 5);
    ASSERT_EQ(broken.last.position.step, 5);
    const Ran resumed = run(options, world, broken_folder.path(), broken.result.checkpoint);
    expect_same_state(resumed.last, whole.last);
    train::TrainOptions plain = options;
    plain.train_transform = "";
    const test::Folder plain_folder;
    EXPECT_GT(test::model_difference(run(plain, world, plain_folder.path()).last, whole.last), 0);
  }
}

// A ring sums in another order when DDP's buckets change; see Strategy::rehearse.
TEST(Resume, FourGlooRanksResumeBitEqual) {
  train::TrainOptions options = small_run();
  options.epochs = 1;
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run(options, 4, whole_folder.path(), {}, 0, "gloo");
  const Ran broken = run(options, 4, broken_folder.path(), {}, 6, "gloo");
  const Ran resumed = run(options, 4, broken_folder.path(), broken.result.checkpoint, 0, "gloo");
  expect_same_state(resumed.last, whole.last);
}

/// A dataset that counts how often each sample is read.
class Counted final : public data::Dataset {
 public:
  explicit Counted(std::shared_ptr<const data::Dataset> inner)
      : inner_(std::move(inner)), reads_(static_cast<size_t>(inner_->size())) {}
  int64_t size() const override { return inner_->size(); }
  data::DataSpec spec() const override { return inner_->spec(); }
  uint32_t fingerprint() const override { return inner_->fingerprint(); }
  std::vector<int64_t> reads() const { return {reads_.begin(), reads_.end()}; }

 private:
  data::Batch load(std::span<const int64_t> indices,
                   const data::SampleContext& context) const override {
    // What a forward is made with whose result is not used (stand_in_batch) is not trained on.
    const bool stands_in = indices.size() == 2 && indices[0] == 0 && indices[1] == 1;
    for (const int64_t index : indices) reads_[static_cast<size_t>(index)] += stands_in ? 0 : 1;
    return inner_->get(indices, context);
  }
  std::shared_ptr<const data::Dataset> inner_;
  mutable std::vector<std::atomic<int64_t>> reads_;
};

/// ranks before the break, ranks after it
class WorldChange : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(WorldChange, KeepsTheGlobalBatchAndNoSampleOfTheEpochIsLostOrRepeated) {
  const auto [before, after] = GetParam();
  const train::TrainData made = train::open_data(
      "synthetic:samples=212,test_samples=20,size=8,classes=4", {});  // the last batch has 4
  const auto counted = std::make_shared<Counted>(made.train);
  train::TrainOptions options = small_run();
  options.epochs = 1;
  options.validation_samples = 0;
  const test::Folder folder;
  std::filesystem::path checkpoint;
  const auto go = [&](int world, int64_t stop_after) {
    const bool resumes = !checkpoint.empty();
    const std::filesystem::path from = checkpoint;
    run_ranks(world, [&](ProcessGroup group) {
      const train::TrainPlan plan =
          train::resolve(options,
                         {.world_size = world, .local_world_size = world, .cores = 2},
                         *counted,
                         *made.test);
      std::optional<train::Checkpoint> resume;
      if (resumes) resume = train::read_checkpoint(from);
      int64_t asked = 0;
      const auto result =
          train::train(plan,
                       {.train = counted, .test = made.test},
                       group,
                       folder.path(),
                       resume,
                       {.stop_requested = [&] { return stop_after > 0 && ++asked >= stop_after; }});
      if (group.rank() == 0) checkpoint = result.checkpoint;
    });
    return train::read_checkpoint(checkpoint).position;
  };
  EXPECT_EQ(go(before, 5), (formats::TrainPosition{.step = 5, .epoch = 0, .samples = 5 * 16}));
  EXPECT_EQ(go(after, 0), (formats::TrainPosition{.step = 14, .epoch = 1, .samples = 0}));
  EXPECT_THAT(counted->reads(), ::testing::Each(1));
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         WorldChange,
                         ::testing::Values(std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 4}),
                         [](const auto& info) {
                           return concat("from_", info.param.first, "_to_", info.param.second);
                         });

// Ranks that are threads share torch's default generator; a model has one of its own.
TEST(Resume, ThreadRanksWithDropoutEndBitEqual) {
  train::TrainOptions options = small_run();
  options.model = "transformer:dropout=0.2,width=16,heads=2,feedforward=16,layers=1,patch=4";
  options.epochs = 1;
  options.optimizer = "adam";
  options.lr_schedule = "one_cycle";
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run(options, 2, whole_folder.path());
  const Ran broken = run(options, 2, broken_folder.path(), {}, 5);
  const Ran resumed = run(options, 2, broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
}

}  // namespace
}  // namespace muster
