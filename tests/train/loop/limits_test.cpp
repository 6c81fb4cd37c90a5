// Parts of the data, validation inside of epochs, and runs that only see whether a program runs.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/optim/schedule.h"
#include "muster/track/metrics_reader.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/evaluate.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::expect_same_state;
using test::kEpochSteps;
using test::model_bytes;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_noted;
using test::small_mlp;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<track::MetricsRow> rows_of(const fs::path& run, const std::string& phase) {
  std::vector<track::MetricsRow> rows = track::read_metrics(run);
  std::erase_if(rows, [&](const track::MetricsRow& row) { return row.phase != phase; });
  return rows;
}

std::vector<int64_t> steps_of(const std::vector<track::MetricsRow>& rows) {
  std::vector<int64_t> steps;
  for (const track::MetricsRow& row : rows) steps.push_back(row.step);
  return steps;
}

train::TrainPlan plan_of(const train::TrainOptions& options, int64_t ranks = 1) {
  const train::TrainData data = train::open_data(options.data, {});
  return train::resolve(options, {.world_size = ranks, .cores = 2}, *data.train, *data.test);
}

TEST(Limits, AnEpochIsItsFirstBatches) {
  train::TrainOptions options = small_mlp();
  options.log_every = 1;
  for (const int ranks : {1, 2}) {
    const test::Folder whole, part;
    options.limit_train_batches = -1;
    run(options, ranks, whole.path());
    options.limit_train_batches = 3;
    EXPECT_EQ(run(options, ranks, part.path()).result.steps, 6);
    const auto all = rows_of(whole.path(), "train"), some = rows_of(part.path(), "train");
    ASSERT_EQ(some.size(), 6U);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(*some[i].find("loss"), *all[i].find("loss")) << i;
    EXPECT_EQ(some[3].epoch, 2);
  }
}

TEST(Limits, OfTrainingCountBatchesNotSteps) {
  train::TrainOptions options = small_mlp();
  options.limit_train_batches = 5;
  options.accumulate_grad_batches = 2;
  EXPECT_EQ(plan_of(options).steps_per_epoch, 3);  // two batches, two, and one
  options.limit_train_batches = 1000;
  EXPECT_EQ(plan_of(options).samples_per_epoch, 200);
}

TEST(Limits, ValidationAndTestAreThoseOfTheFirstSamples) {
  train::TrainOptions options = small_mlp();
  options.limit_val_batches = 1;
  options.limit_test_batches = 2;
  const test::Folder folder;
  const Ran ran = run(options, 2, folder.path());
  EXPECT_EQ(ran.result.test.weight, 32);
  const train::TrainPlan plan = plan_of(options);
  const train::FitData data = train::split_data(plan, train::open_data(options.data, {}));
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    const auto task = train::classifier_maker(plan, /*is_resumed=*/true)();
    train::load_model_state(*task->module(), ran.last.model);
    const auto first = train::evaluate(
        *task, std::make_shared<data::SubsetDataset>(data.validation, 0, 16), group, {});
    EXPECT_NEAR(
        *rows_of(folder.path(), "validate").back().find("loss"), first.metrics["loss"], 1e-6);
  });
}

TEST(Limits, OfNoneLeaveValidationAndTestOut) {
  train::TrainOptions options = small_mlp();
  options.limit_val_batches = 0;
  options.limit_test_batches = 0;
  const test::Folder folder;
  const Ran ran = run(options, 1, folder.path());
  EXPECT_TRUE(ran.result.test.metrics.empty());
  EXPECT_TRUE(ran.result.tested.empty());
  EXPECT_TRUE(rows_of(folder.path(), "validate").empty());
  EXPECT_TRUE(rows_of(folder.path(), "test").empty());
}

TEST(Limits, AreRefusedWhereTheyMeanNothing) {
  const auto refused = [](const std::function<void(train::TrainOptions&)>& say) {
    train::TrainOptions options = small_mlp();
    say(options);
    return refusal_of([&] { plan_of(options); });
  };
  EXPECT_EQ(refused([](auto& o) { o.limit_train_batches = 0; }),
            "--limit-train-batches: at least 1 (got 0)");
  EXPECT_THAT(refused([](auto& o) { o.limit_val_batches = -2; }), HasSubstr("--limit-val-batches"));
  EXPECT_THAT(refused([](auto& o) {
                o.limit_val_batches = 0;
                o.patience = 2;
              }),
              HasSubstr("--patience: it is decided by the validation samples (got "
                        "--limit-val-batches 0)"));
  EXPECT_EQ(refused([](auto& o) { o.val_check_interval = 14; }),
            "--val-check-interval: at most the 13 steps of an epoch (got 14)");
  EXPECT_THAT(refused([](auto& o) {
                o.validation_samples = 0;
                o.val_check_interval = 2;
              }),
              HasSubstr("--val-check-interval: it is decided by the validation samples"));
}

TEST(Limits, AResumeWithOthersIsRefused) {
  train::TrainOptions before = small_mlp();
  before.limit_train_batches = 4;
  const Json record = train::to_json(plan_of(before));
  train::TrainOptions now = small_mlp();
  now.limit_train_batches = 5;
  EXPECT_THAT(refusal_of([&] { train::take_over(record, {"limit_train_batches"}, now); }),
              HasSubstr("limit_train_batches was 4, now 5"));
  now.limit_test_batches = 1;
  train::take_over(record, {"limit_test_batches"}, now);
  EXPECT_EQ(now.limit_train_batches, 4);
  EXPECT_EQ(now.limit_test_batches, 1);
}

TEST(ValCheckInterval, ValidatesInsideOfEpochsAndTrainsTheSame) {
  train::TrainOptions options = small_mlp();
  const test::Folder without, with;
  run(options, 2, without.path());
  options.val_check_interval = 4;
  run(options, 2, with.path());
  EXPECT_THAT(steps_of(rows_of(with.path(), "validate")),
              ElementsAre(4, 8, 12, 13, 17, 21, 25, 26));
  EXPECT_EQ(model_bytes(with.path()), model_bytes(without.path()));
  EXPECT_THAT(train::explain(plan_of(options)), HasSubstr("after each 4 steps of it"));
}

// What it counts to patience is as in Lightning, where EarlyStopping looks at each validation.
TEST(ValCheckInterval, PatienceCountsValidationsAndTheBestOneIsKept) {
  train::TrainOptions options = small_mlp();
  options.monitor = "validate_loss";
  options.val_check_interval = 4;
  options.patience = 2;
  options.min_delta = 100;  // only the first one is better than none
  options.test_weights = "best";
  const test::Folder folder;
  const test::Noted ended = run_noted(options, folder.path());
  EXPECT_EQ(ended.result.steps, 12);
  EXPECT_THAT(ended.notes,
              Contains(HasSubstr("stopped early: 2 validations without a validate_loss better than "
                                 "step 4's")));
  EXPECT_THAT(train::checkpoint_steps(folder.path()), UnorderedElementsAre(4, 12));
  EXPECT_EQ(train::best_checkpoint(folder.path()), train::checkpoint_folder(folder.path(), 4));
}

TEST(ValCheckInterval, ARunStoppedAnywhereGoesOnAsTheWholeOne) {
  train::TrainOptions options = small_mlp();
  options.monitor = "validate_loss";
  options.val_check_interval = 4;
  const test::Folder whole_folder;
  const Ran whole = run(options, 2, whole_folder.path());
  for (const int64_t stop : {4, 6, 8, 13}) {
    const test::Folder folder;
    run(options, 2, folder.path(), {}, stop);
    const Ran resumed = run(options, 2, folder.path(), train::find_checkpoint(folder.path()));
    expect_same_state(resumed.last, whole.last);
    EXPECT_EQ(resumed.last.best_step, whole.last.best_step);
    EXPECT_EQ(resumed.last.loop, whole.last.loop) << stop;
    EXPECT_EQ(steps_of(rows_of(folder.path(), "validate")),
              steps_of(rows_of(whole_folder.path(), "validate")));
  }
}

TEST(FastDevRun, IsOneStepAndABatchOfEach) {
  train::TrainOptions options = small_mlp();
  options.fast_dev_run = true;
  options.epochs = 7;
  options.max_steps = 50;
  options.patience = 3;
  options.test_weights = "best";
  options.accumulate_grad_batches = 2;
  options.lr_schedule = "cosine:unit=step,warmup=20";  // longer than this run
  const test::Folder folder;
  const Ran ran = run(options, 2, folder.path());
  EXPECT_EQ(ran.result.steps, 1);
  EXPECT_EQ(ran.result.test.weight, 16);
  EXPECT_EQ(ran.last.position.epoch, 1);
  EXPECT_EQ(rows_of(folder.path(), "validate").size(), 1U);
  // The rate is that of the whole run's first step.
  const auto schedule =
      optim::make_schedule(options.lr_schedule, {.lr = 0.05, .total_steps = 49, .total_epochs = 7});
  EXPECT_EQ(*rows_of(folder.path(), "train").at(0).find("lr"),
            schedule->at({.step = 0, .epoch = 0}).lr);
}

}  // namespace
}  // namespace muster
