// What ends a run, and which parts of the data it sees: limits by time and minima, epochs without
// validation, a validation before the first step, batches to be overfitted, gradients clipped by value.
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/track/metrics_reader.h"
#include "muster/train/checkpoints/model_state.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"
#include "tests/train/task/own_fit.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::expect_same_state;
using test::kEpochSteps;
using test::model_bytes;
using test::model_difference;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_as;
using test::run_noted;
using test::small_mlp;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<int64_t> validated_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const track::MetricsRow& row : track::read_metrics(folder))
    if (row.phase == "validate") steps.push_back(row.step);
  return steps;
}

train::TrainPlan limited_plan(const train::TrainOptions& options, int64_t ranks = 1) {
  const train::TrainData data = train::open_data(options.data, {});
  return train::resolve(options, {.world_size = ranks, .cores = 2}, *data.train, *data.test);
}

struct TimedRun {
  train::FitResult result;
  std::vector<std::string> notes;
};

/// Rank 0's clock: ten seconds a step. That of another rank is always far ahead.
TimedRun run_timed(const train::TrainOptions& options,
                   int world,
                   const fs::path& output,
                   bool goes_on = false) {
  TimedRun timed;
  std::vector<train::FitResult> results(static_cast<size_t>(world));
  testing::run_ranks(world, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options,
                       {.world_size = world, .local_world_size = world, .cores = 2},
                       *data.train,
                       *data.test);
    std::optional<train::Checkpoint> from;
    if (goes_on) from = train::load_checkpoint(output);
    double seconds = group.rank() == 0 ? 0 : 1e9;
    train::FitCallbacks callbacks;
    callbacks.clock = [&] { return seconds; };
    callbacks.step_ended = [&](const train::StepEnd&) { seconds += 10; };
    if (group.rank() == 0)
      callbacks.note = [&](const std::string& line) { timed.notes.push_back(line); };
    results[static_cast<size_t>(group.rank())] =
        train::train(plan, data, group, output, from, callbacks);
  });
  for (const train::FitResult& other : results) {
    EXPECT_EQ(other.steps, results[0].steps);
    EXPECT_FALSE(other.interrupted);
  }
  timed.result = results[0];
  return timed;
}

// When a step asks, those before it have taken ten seconds each: the sixth is the first behind 45.
TEST(MaxTime, EndsInOrderAfterTheStepThatPassesIt) {
  train::TrainOptions options = small_mlp();
  options.max_time = 45;
  for (const int world : {1, 2}) {
    const test::Folder folder;
    const TimedRun timed = run_timed(options, world, folder.path());
    EXPECT_EQ(timed.result.steps, 6);
    EXPECT_EQ(timed.result.test.weight, 60);
    EXPECT_EQ(train::load_checkpoint(folder.path()).position.step, 6);
    EXPECT_THAT(timed.notes, Contains(HasSubstr("stopped after step 6: --max-time 45")));
  }
}

TEST(MaxTime, CountsTheWholeRunAndEndsWhereTheUnbrokenRunDoes) {
  train::TrainOptions options = small_mlp();
  const test::Folder whole, folder;
  run(options, 2, whole.path());
  options.max_time = 45;
  run_timed(options, 2, folder.path());
  // Its time is over already.
  EXPECT_EQ(run_timed(options, 2, folder.path(), /*goes_on=*/true).result.steps, 6);
  // 60 seconds were worked; steps 7, 8, 9 and 10 ask after 60, 70, 80 and 90.
  options.max_time = 85;
  EXPECT_EQ(run_timed(options, 2, folder.path(), /*goes_on=*/true).result.steps, 10);
  options.max_time = 0;
  const TimedRun ended = run_timed(options, 2, folder.path(), /*goes_on=*/true);
  EXPECT_EQ(ended.result.steps, 2 * kEpochSteps);
  EXPECT_EQ(model_bytes(folder.path()), model_bytes(whole.path()));
  EXPECT_THAT(ended.notes, ::testing::Not(Contains(HasSubstr("--max-time"))));
}

TEST(MaxTime, WaitsForTheLeastNumberOfSteps) {
  train::TrainOptions options = small_mlp();
  options.max_time = 45;
  options.min_steps = 9;
  const test::Folder folder;
  EXPECT_EQ(run_timed(options, 1, folder.path()).result.steps, 9);
}

/// Only the first validation is better than none.
train::TrainOptions impatient() {
  train::TrainOptions options = small_mlp();
  options.monitor = "validate_loss";
  options.patience = 1;
  options.min_delta = 100;
  options.epochs = 6;
  return options;
}

TEST(MinEpochs, KeepPatienceFromEndingTheRunBefore) {
  train::TrainOptions options = impatient();
  const test::Folder without, with, steps;
  EXPECT_EQ(run_noted(options, without.path()).result.steps, 2 * kEpochSteps);
  options.min_epochs = 4;
  const test::Noted ended = run_noted(options, with.path());
  EXPECT_EQ(ended.result.steps, 4 * kEpochSteps);
  EXPECT_THAT(ended.notes, Contains(HasSubstr("stopped early")));
  options.min_epochs = 0;
  options.min_steps = 30;
  EXPECT_EQ(run_noted(options, steps.path()).result.steps, 30);
}

TEST(Patience, ARunThatEndsAtOnceSaysWithWhichOneItGoesOn) {
  train::TrainOptions options = impatient();
  const test::Folder folder;
  EXPECT_THAT(run_noted(options, folder.path()).notes, Not(Contains(HasSubstr("--patience"))));
  const test::Noted again = run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(again.result.steps, 2 * kEpochSteps);
  EXPECT_THAT(again.notes,
              Contains(HasSubstr("; with --patience 2 or more, or 0, which never stops, the run")));
  options.patience = 2;
  EXPECT_EQ(run_noted(options, folder.path(), folder.path()).result.steps, 3 * kEpochSteps);
}

TEST(CheckValEveryNEpoch, LeavesTheOthersOutAndTrainsTheSame) {
  train::TrainOptions options = small_mlp();
  options.epochs = 5;
  const test::Folder each, second;
  run(options, 2, each.path());
  options.check_val_every_n_epoch = 2;
  run(options, 2, second.path());
  EXPECT_THAT(validated_steps(second.path()), ElementsAre(2 * kEpochSteps, 4 * kEpochSteps));
  EXPECT_EQ(model_bytes(second.path()), model_bytes(each.path()));
}

TEST(CheckValEveryNEpoch, HoldsForValidationsInsideOfEpochsAndForPatience) {
  train::TrainOptions options = impatient();
  options.check_val_every_n_epoch = 2;
  const test::Folder folder, inside;
  const test::Noted ended = run_noted(options, folder.path());
  EXPECT_EQ(ended.result.steps, 4 * kEpochSteps);  // two validations
  EXPECT_THAT(ended.notes,
              Contains(HasSubstr("stopped early: 1 validation without a validate_loss better "
                                 "than step 26's")));
  options.patience = 0;
  options.epochs = 2;
  options.val_check_interval = 5;
  run(options, 1, inside.path());
  EXPECT_THAT(validated_steps(inside.path()), ElementsAre(18, 23, 26));
}

TEST(CheckValEveryNEpoch, ARunStoppedAnywhereGoesOnAsTheWholeOne) {
  train::TrainOptions options = small_mlp();
  options.epochs = 3;
  options.check_val_every_n_epoch = 2;
  const test::Folder whole_folder;
  const Ran whole = run(options, 2, whole_folder.path());
  for (const int64_t stop : {13, 20, 26, 30}) {
    const test::Folder folder;
    run(options, 2, folder.path(), {}, stop);
    const Ran resumed = run(options, 2, folder.path(), train::find_checkpoint(folder.path()));
    expect_same_state(resumed.last, whole.last);
    EXPECT_EQ(resumed.last.loop, whole.last.loop) << stop;
    EXPECT_EQ(validated_steps(folder.path()), validated_steps(whole_folder.path()));
  }
}

TEST(SanityValidation, ChangesNothingAndIsNotRecorded) {
  train::TrainOptions options = test::small_run();  // with dropout, which draws
  const test::Folder without;
  run(options, 2, without.path());
  for (const int64_t batches : {1, -1}) {
    options.num_sanity_val_steps = batches;
    const test::Folder folder;
    run(options, 2, folder.path());
    EXPECT_EQ(model_bytes(folder.path()), model_bytes(without.path()));
    EXPECT_EQ(validated_steps(folder.path()), validated_steps(without.path()));
  }
}

/// Cannot be validated.
class Unvalidated : public test::Line {
 public:
  train::StepResult evaluate_step(const data::Batch&, const train::StepContext&) override {
    throw std::runtime_error("no such column");
  }
};

TEST(SanityValidation, EndsARunBeforeItHasAFolder) {
  const train::FitData data{.train = test::numbers(), .validation = test::numbers(8)};
  train::FitOptions options = test::small_own();
  options.num_sanity_val_steps = 1;
  const test::Folder parent;
  for (const int world : {1, 2}) {
    const fs::path folder = parent.path() / std::to_string(world);
    EXPECT_THAT(test::error_of([&] {
                  test::run_own(options, world, data, test::maker<Unvalidated>(), folder);
                }),
                HasSubstr("no such column"));
    EXPECT_FALSE(fs::exists(folder)) << world;
  }
}

/// SGD by hand on the first two batches of the training split, again and again.
std::shared_ptr<torch::nn::Module> overfitted_by_hand(const train::TrainOptions& options,
                                                      int64_t steps,
                                                      double clip_value = 0) {
  const train::TrainPlan plan = limited_plan(options);
  const train::FitData data = train::split_data(plan, train::open_data(options.data, {}));
  torch::manual_seed(options.seed);
  const auto task = train::classifier_maker(plan, /*is_resumed=*/false)();
  const auto model = std::dynamic_pointer_cast<models::Classifier>(task->module());
  model->train();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int64_t> rows(16);
    std::iota(rows.begin(), rows.end(), 16 * (step % 2));
    const data::Batch batch = data.train->get(rows);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(batch["data"]), batch["target"]).backward();
    if (clip_value > 0) torch::nn::utils::clip_grad_value_(model->parameters(), clip_value);
    optimizer.step();
  }
  return model;
}

void expect_near_by_hand(const train::Checkpoint& last, const torch::nn::Module& model) {
  for (const auto& [name, own] : train::model_state(model))
    EXPECT_TRUE(torch::allclose(test::weight_of(last, name), own, 1e-5, 1e-6)) << name;
}

TEST(OverfitBatches, IsALoopOverTheFirstBatchesInTheirOrder) {
  train::TrainOptions options = small_mlp();
  options.overfit_batches = 2;
  options.epochs = 3;
  for (const int world : {1, 2}) {
    const test::Folder folder;
    const Ran ran = run(options, world, folder.path());
    EXPECT_EQ(ran.result.steps, 6);
    EXPECT_EQ(ran.result.test.weight, 60);  // of which there is no limit
    expect_near_by_hand(ran.last, *overfitted_by_hand(options, 6));
  }
}

TEST(OverfitBatches, LimitTheValidationAndGoOnAsTheyBegan) {
  train::TrainOptions options = small_mlp();
  options.overfit_batches = 1;
  const train::TrainPlan plan = limited_plan(options);
  EXPECT_EQ(plan.options.limit_train_batches, 1);
  EXPECT_EQ(plan.options.limit_val_batches, 1);
  train::TrainOptions now;
  train::take_over(train::to_json(plan), {}, now);
  EXPECT_EQ(limited_plan(now).samples_per_epoch, 16);
  EXPECT_THAT(refusal_of([&] {
                now.overfit_batches = 2;
                train::take_over(train::to_json(plan), {"overfit_batches"}, now);
              }),
              HasSubstr("overfit_batches was 1, now 2"));
}

TEST(GradientClipAlgorithm, ByValueIsTorchsOnAnyStrategy) {
  train::TrainOptions options = small_mlp();
  options.overfit_batches = 2;
  options.epochs = 3;
  options.gradient_clip_val = 0.01;
  options.gradient_clip_algorithm = "value";
  const test::Folder alone_folder;
  const Ran alone = run(options, 1, alone_folder.path());
  expect_near_by_hand(alone.last, *overfitted_by_hand(options, 6, /*clip_value=*/0.01));
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "pipeline"}) {
    const test::Folder folder;
    const Ran ran = run_as(strategy, options, 2, folder.path());
    EXPECT_LT(model_difference(ran.last, alone.last), 1e-5) << strategy;
  }
}

TEST(RunLimits, ThatMeanNothingAreRefused) {
  const auto refused = [](const std::function<void(train::TrainOptions&)>& say) {
    train::TrainOptions options = small_mlp();
    say(options);
    return refusal_of([&] { limited_plan(options); });
  };
  EXPECT_THAT(refused([](auto& o) { o.max_time = -1; }), HasSubstr("--max-time: at least 0"));
  EXPECT_EQ(refused([](auto& o) { o.min_epochs = 3; }),
            "--min-epochs: at most the 2 of --epochs (got 3)");
  EXPECT_EQ(refused([](auto& o) {
              o.max_steps = 5;
              o.min_steps = 6;
            }),
            "--min-steps: at most the 5 of --max-steps (got 6)");
  EXPECT_THAT(refused([](auto& o) { o.min_steps = 1'000'000; }),
              HasSubstr(" steps of all epochs (got 1000000)"));
  EXPECT_EQ(refused([](auto& o) {
              o.max_steps = 1;
              o.min_epochs = 1;
            }),
            "--min-epochs: at most the 0 whole epochs within --max-steps (got 1)");
  EXPECT_THAT(refused([](auto& o) {
                o.validation_samples = 0;
                o.num_sanity_val_steps = 2;
              }),
              HasSubstr("--num-sanity-val-steps: it is decided by the validation samples"));
  EXPECT_THAT(refused([](auto& o) { o.check_val_every_n_epoch = 0; }),
              HasSubstr("--check-val-every-n-epoch: at least 1"));
  EXPECT_THAT(refused([](auto& o) { o.check_val_every_n_epoch = 3; }),
              HasSubstr("--check-val-every-n-epoch: at most the 2 epochs"));
  EXPECT_THAT(refused([](auto& o) {
                o.validation_samples = 0;
                o.check_val_every_n_epoch = 2;
              }),
              HasSubstr("--check-val-every-n-epoch: it is decided by the validation samples"));
  EXPECT_THAT(refused([](auto& o) {
                o.overfit_batches = 2;
                o.limit_train_batches = 3;
              }),
              HasSubstr("--overfit-batches 2: it says itself how many batches there are (got "
                        "--limit-train-batches 3)"));
  EXPECT_THAT(refused([](auto& o) { o.num_sanity_val_steps = -2; }),
              HasSubstr("--num-sanity-val-steps: at least -1"));
  EXPECT_THAT(
      refused([](auto& o) { o.gradient_clip_algorithm = "value"; }),
      HasSubstr("--gradient-clip-algorithm value: it says what --gradient-clip-val bounds"));
  EXPECT_THAT(refused([](auto& o) {
                o.gradient_clip_val = 1;
                o.gradient_clip_algorithm = "max";
              }),
              HasSubstr("--gradient-clip-algorithm: norm or value"));
}

TEST(RunLimits, AreInThePlanForPeople) {
  train::TrainOptions options = small_mlp();
  options.max_time = 5400;
  options.min_steps = 3;
  options.check_val_every_n_epoch = 2;
  options.num_sanity_val_steps = 2;
  options.gradient_clip_val = 0.5;
  options.gradient_clip_algorithm = "value";
  const std::string text = train::explain(limited_plan(options));
  EXPECT_THAT(text, HasSubstr("each gradient clipped to at most 0.5"));
  EXPECT_THAT(text, HasSubstr("validation    at the end of every 2. epoch, 2 batches tried"));
  EXPECT_THAT(text, HasSubstr("ends          after 1h30m"));
  EXPECT_THAT(text, HasSubstr("goes on       for at least 0 epochs and 3 steps"));
}

}  // namespace
}  // namespace muster
