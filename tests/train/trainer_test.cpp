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
        int64_t stop_after = 0) {
  std::vector<train::TrainResult> results(world);
  run_ranks(world, [&](ProcessGroup group) {
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
  });
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

TEST(Trainer, AnotherWorldSizeGoesOnWithTheSameGlobalBatch) {
  const test::Folder folder;
  const Ran two = run(small_run(), 2, folder.path(), {}, 5);
  ASSERT_EQ(two.last.position.samples, 5 * 16);
  const Ran one = run(small_run(), 1, folder.path(), two.result.checkpoint);
  EXPECT_EQ(one.result.steps, 2 * 13);
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
  EXPECT_EQ(kept, 2);
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"),
              HasSubstr("step,epoch,phase,loss,accuracy"));
  EXPECT_THAT(read_file(folder.path() / "metrics.jsonl"), HasSubstr("\"phase\":\"test\""));
}

}  // namespace
}  // namespace muster
