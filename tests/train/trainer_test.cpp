// The training loop on ranks that are threads: learning, stopping, resuming bit for bit, refusing
// numbers that are not finite.
#include "muster/train/trainer.h"

#include <atomic>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/tensor_dataset.h"
#include "muster/testing/run_ranks.h"

#include "tests/folder.h"

namespace muster {
namespace {

using muster::testing::run_ranks;
using parallel::ProcessGroup;
using ::testing::HasSubstr;

train::TrainOptions small_run() {
  train::TrainOptions options;
  options.model = "cnn:width=4,hidden=16";
  options.data = "synthetic:samples=220,test_samples=60,size=8,classes=4,noise=0.3";
  options.epochs = 2;
  options.batch_size = 16;
  options.workers = 0;
  options.validation_samples = 20;
  options.log_every = 5;
  options.keep_checkpoints = 1000;
  return options;
}

struct Ran {
  train::TrainResult result;
  train::Checkpoint last;
};

/// Runs `options` on thread ranks, from a checkpoint if one is given, stopping after `stop_after`
/// steps of this run if not 0.
Ran run(const train::TrainOptions& options,
        int world,
        const std::filesystem::path& output,
        const std::optional<std::filesystem::path>& resume = {},
        int64_t stop_after = 0,
        const std::string& backend = "thread") {
  std::vector<train::TrainResult> results(world);
  const auto rank_main = [&](ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options,
                       {.world_size = world, .local_world_size = world, .cores = 2},
                       *data.train,
                       *data.test);
    std::optional<train::Checkpoint> checkpoint;
    if (resume) checkpoint = train::read_checkpoint(*resume);
    int64_t asked = 0;
    // Only the last rank wants to stop: all must.
    const bool asks = group.rank() == world - 1;
    results[group.rank()] =
        train::train(plan, data, group, output, checkpoint, {.stop_requested = [&] {
                       return asks && stop_after > 0 && ++asked >= stop_after;
                     }});
  };
  run_ranks(world, rank_main, {.backend = backend});
  for (const auto& result : results) EXPECT_EQ(result.interrupted, results[0].interrupted);
  return {results[0], train::read_checkpoint(results[0].checkpoint)};
}

void expect_same_state(const train::Checkpoint& a, const train::Checkpoint& b) {
  EXPECT_EQ(a.position, b.position);
  const auto same = [](const train::NamedTensorList& x, const train::NamedTensorList& y) {
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i].first, y[i].first);
      EXPECT_TRUE(torch::equal(x[i].second, y[i].second)) << x[i].first;
    }
  };
  same(a.model, b.model);
  same(a.optimizer, b.optimizer);
}

TEST(Trainer, LearnsTheMadeUpTask) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.epochs = 5;
  const Ran ran = run(options, 2, folder.path());
  EXPECT_FALSE(ran.result.interrupted);
  EXPECT_EQ(ran.result.steps, 5 * 13);  // 200 samples in batches of 16
  EXPECT_GT(ran.result.test.meter.accuracy(), 0.9);
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
  EXPECT_NEAR(alone.result.test.meter.accuracy(), shared.result.test.meter.accuracy(), 1e-12);
}

/// ranks, loader workers, steps before the break
class Resume : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Resume, EndsBitEqualToAnUnbrokenRun) {
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
  EXPECT_EQ(resumed.result.test.meter.loss(), whole.result.test.meter.loss());
  EXPECT_EQ(resumed.result.test.meter.accuracy(), whole.result.test.meter.accuracy());

  // The metrics of both runs tell the same story, but for times.
  const auto story = [](const std::filesystem::path& folder) {
    std::istringstream lines(read_file(folder / "metrics.csv"));
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      size_t end = 0;
      for (int comma = 0; comma < 6; ++comma) end = line.find(',', end) + 1;
      out += line.substr(0, end) + '\n';
    }
    return out;
  };
  EXPECT_EQ(story(broken_folder.path()), story(whole_folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Breaks,
                         Resume,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(0, 3),
                                            ::testing::Values(1, 7, 13, 20)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::to_string(std::get<1>(info.param)) + "_workers_after_" +
                                  std::to_string(std::get<2>(info.param)) + "_steps";
                         });

// A ring sums in another order when DDP's buckets change; see Trainer::lay_out_buckets.
TEST(Trainer, FourGlooRanksResumeBitEqual) {
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
  std::vector<int64_t> reads() const { return {reads_.begin(), reads_.end()}; }

 private:
  data::Batch load(std::span<const int64_t> indices,
                   const data::SampleContext& context) const override {
    for (const int64_t index : indices) ++reads_[static_cast<size_t>(index)];
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
  EXPECT_EQ(go(before, 5), (train::TrainPosition{.step = 5, .epoch = 0, .samples = 5 * 16}));
  EXPECT_EQ(go(after, 0), (train::TrainPosition{.step = 14, .epoch = 1, .samples = 0}));
  EXPECT_THAT(counted->reads(), ::testing::Each(1));
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         WorldChange,
                         ::testing::Values(std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 4}),
                         [](const auto& info) {
                           return concat("from_", info.param.first, "_to_", info.param.second);
                         });

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
  // A run that starts from those weights and does not move them finds the same.
  options.weights = *best / "model.safetensors";
  options.lr = 1e-30;
  options.max_steps = 1;
  options.test_weights = "last";
  const Ran frozen = run(options, 2, frozen_folder.path());
  EXPECT_EQ(ran.result.test.meter.loss_sum, frozen.result.test.meter.loss_sum);
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
  EXPECT_EQ(second.result.test.meter.correct, first.result.test.meter.correct);
}

TEST(Trainer, CountsClassesAndTopAnswersOfTheTestSplit) {
  train::TrainOptions options = small_run();
  options.top_k = 2;
  const test::Folder folder;
  const train::Evaluation test = run(options, 2, folder.path()).result.test;
  EXPECT_EQ(test.meter.count, 60);
  ASSERT_TRUE(test.confusion);
  EXPECT_EQ(test.confusion->total(), 60);
  EXPECT_DOUBLE_EQ(test.confusion->accuracy(), test.meter.accuracy());
  EXPECT_GE(test.in_top_k, test.meter.correct);
  EXPECT_LE(test.in_top_k, 60);
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
