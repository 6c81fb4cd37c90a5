// The training loop on ranks that are threads: learning, batches and their weights, clipping,
// stopping early, refusing numbers that are not finite.
#include "muster/train/classifier/trainer.h"

#include <atomic>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using test::Ran;
using test::run;
using test::small_run;
using ::testing::HasSubstr;

TEST(Trainer, LearnsTheMadeUpTask) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.epochs = 5;
  const Ran ran = run(options, 2, folder.path());
  EXPECT_FALSE(ran.result.interrupted);
  EXPECT_EQ(ran.result.steps, 5 * 13);  // 200 samples in batches of 16
  EXPECT_GT(ran.result.test.metrics["accuracy"], 0.9);
}

TEST(Trainer, TwoRanksEndWithinRoundingOfOneRank) {
  // mlp: no BatchNorm, whose batch statistics differ by design. 192 = 2 x 96 samples: no padding.
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.data = "synthetic:samples=212,test_samples=60,size=8,classes=4,noise=0.3";
  const test::Folder one, two;
  const Ran alone = run(options, 1, one.path()), shared = run(options, 2, two.path());
  for (size_t i = 0; i < alone.last.model.size(); ++i) {
    EXPECT_LE((alone.last.model[i].second - shared.last.model[i].second).abs().max().item<double>(),
              1e-5)
        << alone.last.model[i].first;
  }
  EXPECT_NEAR(alone.result.test.metrics["accuracy"], shared.result.test.metrics["accuracy"], 1e-12);
}

/// The largest difference between the models that two runs end with.
double difference(const Ran& a, const Ran& b) {
  double most = 0;
  for (size_t i = 0; i < a.last.model.size(); ++i) {
    most = std::max(
        most,
        (a.last.model[i].second - b.last.model[i].second).abs().max().template item<double>());
  }
  return most;
}

// 5 samples in the last batch: 2, 1, 1, 1 for four ranks; and 2: two ranks have none.
class LastBatch : public ::testing::TestWithParam<int> {};

TEST_P(LastBatch, OfAnEpochCountsEachSampleOnceOnAnyNumberOfRanks) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";  // no BatchNorm, whose batch statistics differ by design
  options.data = concat(
      "synthetic:samples=", 20 + 64 + GetParam(), ",test_samples=60,size=8,classes=4,noise=0.3");
  const test::Folder one, two, four;
  const Ran alone = run(options, 1, one.path());
  EXPECT_EQ(alone.result.steps, 2 * 5);
  EXPECT_LE(difference(alone, run(options, 2, two.path())), 2e-6);
  EXPECT_LE(difference(alone, run(options, 4, four.path())), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Of, LastBatch, ::testing::Values(2, 5), [](const auto& info) {
  return concat(info.param, "_samples");
});

TEST(Trainer, AccumulatedBatchesEqualOneLargeBatch) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  const test::Folder large_folder, small_folder, two_folder;
  options.batch_size = 48;
  const Ran large = run(options, 1, large_folder.path());
  options.batch_size = 16;
  options.accumulate_grad_batches = 3;
  const Ran small = run(options, 1, small_folder.path());
  EXPECT_EQ(small.result.steps, large.result.steps);
  EXPECT_LE(difference(large, small), 2e-6);
  EXPECT_LE(difference(large, run(options, 2, two_folder.path())), 2e-6);
}

// 200 samples in batches of 16: the 12 steps of an epoch are the first 12 of 13.
TEST(Trainer, DropLastMakesTheWholeBatchesOfTheSameOrder) {
  train::TrainOptions options = small_run();
  options.epochs = 1;
  const test::Folder whole_folder, first_folder;
  options.max_steps = 12;
  const Ran first = run(options, 2, first_folder.path());
  options.max_steps = 0;
  options.drop_last = true;
  const Ran whole = run(options, 2, whole_folder.path());
  EXPECT_EQ(whole.result.steps, 12);
  EXPECT_EQ(whole.last.position.epoch, 1);
  EXPECT_EQ(difference(whole, first), 0);
}

TEST(Trainer, ClippingBoundsTheStep) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.optimizer = "sgd:momentum=0";
  options.lr = 1;
  options.max_steps = 1;
  options.log_every = 1;
  const test::Folder start_folder, clipped_folder;
  options.gradient_clip_val = 1e-12;  // stays at the start
  const Ran start = run(options, 1, start_folder.path());
  options.gradient_clip_val = 0.01;
  const Ran clipped = run(options, 2, clipped_folder.path());
  double squares = 0;
  for (size_t i = 0; i < start.last.model.size(); ++i) {
    squares +=
        (start.last.model[i].second - clipped.last.model[i].second).square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-5);
  EXPECT_THAT(read_file(clipped_folder.path() / "metrics.jsonl"), HasSubstr("\"gradient_norm\""));
}

TEST(Trainer, StopsEarlyAndKeepsTheBestEpoch) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.lr = 1e-12;  // nothing is learnt, so the first epoch stays the best
  options.epochs = 50;
  options.patience = 3;
  options.keep_checkpoints = 1;
  const test::Folder folder;
  const Ran ran = run(options, 2, folder.path());
  EXPECT_EQ(ran.result.steps, 4 * 13);
  EXPECT_EQ(read_file(folder.path() / "best"), "step-13\n");
  EXPECT_EQ(read_file(folder.path() / "latest"), "step-52\n");
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints/step-13/state.json"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints/step-39"));
}

TEST(Trainer, TestsWithTheBestWeightsOnRequest) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.monitor = "validate_loss";
  options.lr = 3;  // the loss climbs: the best epoch is not the last
  options.epochs = 6;
  options.test_weights = "best";
  const test::Folder folder, frozen_folder;
  const Ran ran = run(options, 2, folder.path());
  const auto best = train::best_checkpoint(folder.path());
  ASSERT_TRUE(best);
  ASSERT_NE(*best, ran.result.checkpoint);
  EXPECT_EQ(ran.result.tested, *best);
  // A run that starts from those weights and does not move them finds the same.
  options.weights = *best / "model.safetensors";
  options.lr = 1e-30;
  options.max_steps = 1;
  options.test_weights = "last";
  const Ran frozen = run(options, 2, frozen_folder.path());
  EXPECT_EQ(ran.result.test.metrics["loss"], frozen.result.test.metrics["loss"]);
  EXPECT_EQ(frozen.result.tested, frozen.result.checkpoint);
}

TEST(Trainer, StartsFromGivenWeights) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  const test::Folder first_folder, second_folder;
  const Ran first = run(options, 1, first_folder.path());
  options.weights = first.result.checkpoint / "model.safetensors";
  options.lr = 1e-30;  // no weight moves
  options.max_steps = 1;
  const Ran second = run(options, 2, second_folder.path());
  EXPECT_EQ(difference(first, second), 0);
  EXPECT_EQ(second.result.test.metrics["accuracy"], first.result.test.metrics["accuracy"]);
}

TEST(Trainer, CountsClassesAndTopAnswersOfTheTestSplit) {
  train::TrainOptions options = small_run();
  options.top_k = 2;
  const test::Folder folder;
  const train::Evaluation test = run(options, 2, folder.path()).result.test;
  EXPECT_EQ(test.weight, 60);
  ASSERT_TRUE(test.report.confusion);
  EXPECT_EQ(test.report.confusion->total(), 60);
  EXPECT_DOUBLE_EQ(test.report.confusion->accuracy(), test.metrics["accuracy"]);
  EXPECT_GE(test.metrics["top_k_accuracy"], test.metrics["accuracy"]);
  EXPECT_LE(test.metrics["top_k_accuracy"], 1);
}

TEST(Trainer, ALossThatIsNotFiniteStopsAllRanksBeforeTheStep) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=8";
  torch::Tensor images = torch::rand({220, 1, 8, 8});
  images[100].fill_(std::numeric_limits<float>::quiet_NaN());
  const torch::Tensor labels = torch::arange(220).remainder(4);
  const auto dataset = std::make_shared<data::TensorDataset>(images, labels, /*classes=*/4);
  std::atomic<int> refused{0};
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    const train::TrainData data{dataset, dataset};
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = 2, .local_world_size = 2, .cores = 2}, *dataset, *dataset);
    try {
      train::train(plan, data, group, folder.path(), {}, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
      errors[group.rank()] = error.what();
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
  EXPECT_THAT(errors[0], HasSubstr("the loss is not finite in step"));
  EXPECT_THAT(errors[1], HasSubstr("--lr"));
}

TEST(Trainer, ARunsSecondsCountItsEarlierProcesses) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.epochs = 1;
  const Ran first = run(options, 1, folder.path());
  // As if the first epoch had taken a quarter of an hour.
  const std::filesystem::path rows = folder.path() / "metrics.jsonl";
  std::ofstream(rows, std::ios::app)
      << R"({"step":13,"epoch":1,"phase":"validate","loss":1,"elapsed_s":900})" << '\n';
  options.epochs = 2;
  const Ran second = run(options, 1, folder.path(), first.result.checkpoint);
  EXPECT_GE(second.result.seconds, 900);
  EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("26 steps, 15m"));
}

TEST(Trainer, WritesTheFilesOfItsContract) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.checkpoint_every = 5;
  options.keep_checkpoints = 2;
  run(options, 1, folder.path());
  EXPECT_EQ(read_file(folder.path() / "latest"), "step-26\n");
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "checkpoints"))
    kept += entry.is_directory();
  EXPECT_LE(kept, 3);  // two, and the best one if it is older
  EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("test accuracy"));
  EXPECT_THAT(read_file(folder.path() / "curves.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(read_file(folder.path() / "confusion_matrix.csv"), HasSubstr(","));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"),
              HasSubstr("step,epoch,phase,loss,accuracy"));
  EXPECT_THAT(read_file(folder.path() / "metrics.jsonl"), HasSubstr("\"phase\":\"test\""));
}

}  // namespace
}  // namespace muster
