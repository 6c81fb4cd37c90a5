// The life of a run's folder through training: a run that goes back keeps what it saves and what it
// leaves, a refused resume changes nothing, and what a run cannot promise is said.
#include <array>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/track/metrics_reader.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/tensorboard_points.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kEpochSteps;
using test::model_bytes;
using test::Noted;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_noted;
using test::small_mlp;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

/// Every file under the folder, by its path there.
std::map<std::string, std::string> all_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

TEST(RunLife, GoingBackNeverLosesWhatIsSavedNext) {
  train::TrainOptions options = small_mlp();
  options.epochs = 3;
  options.checkpoint_every = 4;
  options.keep_checkpoints = 3;
  const test::Folder folder;
  run(options, 1, folder.path());
  const std::string future = model_bytes(folder.path());
  const int64_t back = train::checkpoint_steps(folder.path())[2];
  ASSERT_EQ(back, 32);  // 39, 36, 32
  options.lr = 0.001;
  options.keep_checkpoints = 1;  // not the one with the largest number
  const fs::path from = train::checkpoint_folder(folder.path(), back);
  const Noted stopped = run_noted(options, folder.path(), from, 2);
  EXPECT_TRUE(stopped.result.interrupted);
  EXPECT_EQ(stopped.result.checkpoint, train::checkpoint_folder(folder.path(), back + 2));
  EXPECT_THAT(stopped.notes, Contains(HasSubstr("what came after step 32")));
  EXPECT_EQ(train::load_checkpoint(folder.path()).position.step, back + 2);

  const Noted ended = run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(train::load_checkpoint(folder.path()).position.step, 3 * kEpochSteps);
  EXPECT_EQ(ended.result.checkpoint, train::find_checkpoint(folder.path()));
  EXPECT_NE(model_bytes(folder.path()), future);
  EXPECT_EQ(model_bytes(folder.path() / "abandoned" / "1"), future);
  // The abandoned run has all its rows, this one has its own line's.
  const auto aside = track::read_metrics(folder.path() / "abandoned" / "1");
  EXPECT_EQ(aside.back().phase, "test");
  int tests = 0;
  for (const track::MetricsRow& row : track::read_metrics(folder.path())) {
    tests += row.phase == "test";
    if (row.step > back && row.phase == "train") {
      EXPECT_EQ(*row.find("lr"), 0.001);
    }
  }
  EXPECT_EQ(tests, 1);
}

TEST(RunLife, ARunThatGoesOnInAnotherFolderHasItsHistoryThereAndLeavesTheFirst) {
  train::TrainOptions options = small_mlp();
  const test::Folder first, second, whole;
  run(options, 1, whole.path());
  run(options, 1, first.path(), {}, kEpochSteps + 3);
  const auto before = all_files(first.path());
  run_noted(options, second.path(), first.path());
  EXPECT_EQ(all_files(first.path()), before);
  EXPECT_EQ(model_bytes(second.path()), model_bytes(whole.path()));
  const auto rows = track::read_metrics(second.path()), want = track::read_metrics(whole.path());
  ASSERT_EQ(rows.size(), want.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].step, want[i].step);
    EXPECT_EQ(*rows[i].find("loss"), *want[i].find("loss"));
  }
  const auto points = test::tensorboard_points(second.path() / "tensorboard");
  EXPECT_EQ(points.at("train/loss"),
            test::tensorboard_points(whole.path() / "tensorboard").at("train/loss"));
}

TEST(RunLife, ARefusedResumeChangesNoByte) {
  train::TrainOptions options = small_mlp();
  options.strategy = "zero1:dtype=bfloat16";
  const test::Folder folder;
  run(options, 2, folder.path(), {}, kEpochSteps + 4);
  const auto before = all_files(folder.path());
  // bfloat16 weights are not for this strategy.
  options.strategy = "single";
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), folder.path()); }),
              HasSubstr("saved"));
  EXPECT_EQ(all_files(folder.path()), before);
  // Going back is refused as a whole, too.
  const fs::path older = train::checkpoint_folder(folder.path(), kEpochSteps);
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), older); }), HasSubstr("saved"));
  EXPECT_EQ(all_files(folder.path()), before);
}

TEST(RunLife, OtherDataUnderTheSameNameIsRefused) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run(options, 1, folder.path(), {}, 5);
  const auto before = all_files(folder.path());
  const train::TrainData fewer =
      train::open_data("synthetic:samples=180,test_samples=60,size=8,classes=4,noise=0.3", {});
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), folder.path(), 0, 1, fewer); }),
              AllOf(HasSubstr("160 samples to train, before 200"), HasSubstr("--weights")));
  EXPECT_EQ(all_files(folder.path()), before);
}

TEST(RunLife, OtherContentOfTheSameSizeIsSaid) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run(options, 1, folder.path(), {}, 5);
  EXPECT_THAT(run_noted(options, folder.path(), folder.path(), 2).notes,
              Each(Not(HasSubstr("fingerprint"))));
  train::TrainData other = train::open_data(options.data, {});
  const auto& images = dynamic_cast<const data::ImageDataset&>(*other.train);
  const at::Tensor labels = images.labels().clone();
  labels[7] = (labels[7] + 1) % 4;
  other.train = std::make_shared<data::ImageDataset>(images.spec(), images.images(), labels);
  const auto notes = run_noted(options, folder.path(), folder.path(), 2, 1, other).notes;
  EXPECT_THAT(notes,
              Contains(AllOf(HasSubstr("training split has other content"),
                             HasSubstr("does not end as an unbroken run would"))));
  EXPECT_THAT(notes, Each(Not(HasSubstr("test split"))));
  // What it goes on with from here is what it was told of.
  EXPECT_THAT(run_noted(options, folder.path(), folder.path(), 0, 1, other).notes,
              Each(Not(HasSubstr("fingerprint"))));
}

TEST(RunLife, AFolderThatHasARunIsRefusedToAnother) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder, other;
  run(options, 1, folder.path(), {}, 5);
  run(options, 1, other.path(), {}, 5);
  const auto before = all_files(folder.path());
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path()); }),
              HasSubstr("does not overwrite"));
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), other.path()); }),
              HasSubstr("does not overwrite"));
  EXPECT_EQ(all_files(folder.path()), before);
}

TEST(RunLife, RanksThatHoldOutOtherSamplesAreToldByWhichFlag) {
  const test::Folder folder;
  const auto errors_of = [&](const train::TrainOptions& first, const train::TrainOptions& second) {
    return testing::rank_errors(2, [&](distributed::ProcessGroup group) {
      const train::TrainOptions& options = group.rank() == 0 ? first : second;
      const train::TrainData data = train::open_data(options.data, {});
      const train::TrainPlan plan =
          train::resolve(options, {.world_size = 2, .cores = 2}, *data.train, *data.test);
      train::train(plan, data, group, folder.path(), {}, {});
    });
  };
  train::TrainOptions one = small_mlp(), other = one;
  one.validation_samples = 8, other.validation_samples = 12;
  EXPECT_THAT(errors_of(one, other),
              Each(HasSubstr("--validation-samples: all ranks hold out the same samples (got 8 on "
                             "rank 0, 12 on rank 1)")));
  other.validation_samples = 8;
  one.validation_split = "random", other.validation_split = "tail";
  EXPECT_THAT(errors_of(one, other),
              Each(HasSubstr("--validation-split: all ranks hold out the same samples (got random "
                             "on rank 0, tail on rank 1)")));
}

TEST(RunLife, RanksThatSeeDifferentCheckpointsAreRefusedAlike) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  const Ran first = run(options, 2, folder.path(), {}, 5);
  const auto before = all_files(folder.path());
  const auto errors = testing::rank_errors(2, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options, {.world_size = 2, .cores = 2}, *data.train, *data.test);
    std::optional<train::Checkpoint> from;
    if (group.rank() == 0) from = train::load_checkpoint(folder.path());
    train::train(plan, data, group, folder.path(), from, {});
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("all ranks go on from one checkpoint"),
                         HasSubstr("rank 0 has step 5"),
                         HasSubstr("rank 1 has no checkpoint"))));
  EXPECT_EQ(all_files(folder.path()), before);
}

/// What two ranks end with that train on these data.
std::vector<std::string> errors_over(const std::array<std::string, 2>& data_of_rank,
                                     const fs::path& output) {
  return testing::rank_errors(2, [&](distributed::ProcessGroup group) {
    train::TrainOptions options = small_mlp();
    options.data = data_of_rank.at(static_cast<size_t>(group.rank()));
    options.validation_samples = 0;
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options, {.world_size = 2, .cores = 2}, *data.train, *data.test);
    train::train(plan, data, group, output, {}, {});
  });
}

TEST(RunLife, RanksWithDataOfDifferentSizesAreRefusedAlike) {
  const test::Folder folder;
  const std::string data = "synthetic:size=8,test_samples=16,samples=";
  EXPECT_THAT(errors_over({data + "64", data + "60"}, folder.path() / "run"),
              Each(AllOf(HasSubstr("train on the same data"),
                         HasSubstr("rank 0 has no checkpoint and 64 samples"),
                         HasSubstr("rank 1 has no checkpoint and 60 samples"))));
  EXPECT_FALSE(fs::exists(folder.path() / "run"));
}

TEST(RunLife, RanksWithOtherDataOfTheSameSizeAreRefusedAlike) {
  const test::Folder folder;
  const std::string data = "synthetic:size=8,test_samples=16,samples=64,seed=";
  EXPECT_THAT(errors_over({data + "0", data + "1"}, folder.path() / "run"),
              Each(AllOf(HasSubstr("train on the same data"),
                         HasSubstr("rank 0 has no checkpoint and 64 samples (fingerprint "),
                         HasSubstr("rank 1 has no checkpoint and 64 samples (fingerprint "))));
  EXPECT_FALSE(fs::exists(folder.path() / "run"));
}

TEST(RunLife, WhatRankZeroRefusesAllRanksRefuse) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run(options, 2, folder.path(), {}, 5);
  const auto errors = testing::rank_errors(2, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options, {.world_size = 2, .cores = 2}, *data.train, *data.test);
    train::train(plan, data, group, folder.path(), {}, {});
  });
  EXPECT_THAT(errors, Each(HasSubstr("does not overwrite")));
}

/// A run whose best epoch is its first, and not the last.
train::TrainOptions ever_worse() {
  train::TrainOptions options = small_mlp();
  options.monitor = "validate_loss";
  options.lr = 3;
  options.epochs = 4;
  options.test_weights = "best";
  options.validation_split = "tail";  // of these samples it is so
  return options;
}

/// The best by the rows themselves.
int64_t least_loss_step(const fs::path& run) {
  double least = INFINITY;
  int64_t step = -1;
  for (const track::MetricsRow& row : track::read_metrics(run)) {
    if (row.phase != "validate" || *row.find("loss") >= least) continue;
    least = *row.find("loss");
    step = row.step;
  }
  return step;
}

TEST(RunLife, BestIsThatOfTheLineThatTheRunIsOn) {
  train::TrainOptions options = small_mlp();
  options.epochs = 4;
  options.monitor = "validate_loss";
  const test::Folder folder;
  run(options, 1, folder.path());
  ASSERT_GT(train::step_named_by(folder.path() / "best"), 2 * kEpochSteps) << "it gets better";
  // Back to the second epoch, and from there nothing is learnt.
  options.lr = 1e-30;
  options.test_weights = "best";
  run_noted(options, folder.path(), train::checkpoint_folder(folder.path(), 2 * kEpochSteps));
  EXPECT_EQ(train::step_named_by(folder.path() / "best"), 2 * kEpochSteps);
  EXPECT_EQ(least_loss_step(folder.path()), 2 * kEpochSteps);
  EXPECT_GT(train::step_named_by(folder.path() / "abandoned/1/best"), 2 * kEpochSteps);
}

TEST(RunLife, TheBestWeightsAreTestedWhereverTheRunGoesOn) {
  const train::TrainOptions options = ever_worse();
  const test::Folder whole, first, second;
  const Ran unbroken = run(options, 1, whole.path());
  const int64_t best = least_loss_step(whole.path());
  ASSERT_LT(best, 4 * kEpochSteps);
  run(options, 1, first.path(), {}, 3 * kEpochSteps + 2);
  const Noted elsewhere = run_noted(options, second.path(), first.path());
  EXPECT_EQ(elsewhere.result.test.metrics["loss"], unbroken.result.test.metrics["loss"]);
  EXPECT_EQ(train::step_named_by(second.path() / "best"), best);
}

TEST(RunLife, BestWeightsThatCannotBeReadAreRefusedBeforeTheTraining) {
  const train::TrainOptions options = ever_worse();
  const test::Folder folder;
  run(options, 1, folder.path(), {}, 3 * kEpochSteps + 2);
  const fs::path best =
      train::checkpoint_folder(folder.path(), *train::step_named_by(folder.path() / "best"));
  ASSERT_NE(best, train::find_checkpoint(folder.path()));
  fs::resize_file(best / "model.safetensors", 100);
  const auto before = all_files(folder.path());
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), folder.path()); }),
              AllOf(HasSubstr("--test-weights best"), HasSubstr("--test-weights last")));
  EXPECT_EQ(all_files(folder.path()), before);
  fs::remove_all(best);
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), folder.path()); }),
              HasSubstr("state.json is missing"));
}

TEST(RunLife, WithoutABestEpochTheLastWeightsAreTestedAndThatIsSaid) {
  train::TrainOptions options = small_mlp();
  options.test_weights = "best";
  options.max_steps = 5;  // no epoch ends
  const test::Folder folder;
  EXPECT_THAT(run_noted(options, folder.path()).notes,
              Contains(HasSubstr("no epoch was the best: the last weights are tested")));
}

}  // namespace
}  // namespace muster
