#include "muster/train/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

std::shared_ptr<data::TensorDataset> images(int64_t samples,
                                            int64_t channels = 1,
                                            int64_t size = 28,
                                            int64_t classes = 10) {
  return std::make_shared<data::TensorDataset>(torch::zeros({samples, channels, size, size}),
                                               torch::zeros({samples}, torch::kLong),
                                               classes);
}

train::TrainPlan resolve(const train::TrainOptions& options,
                         int64_t world = 1,
                         int64_t samples = 60000) {
  return train::resolve(options,
                        {.world_size = world, .local_world_size = world, .cores = 4},
                        *images(samples),
                        *images(100));
}

TEST(Plan, FillsInEveryDefault) {
  const train::TrainPlan plan = resolve({}, 2);
  EXPECT_EQ(plan.options.strategy, "ddp");
  EXPECT_EQ(plan.validation_samples, 5000);
  EXPECT_EQ(plan.train_samples, 55000);
  EXPECT_EQ(plan.batch_per_rank, 64);
  EXPECT_EQ(plan.steps_per_epoch, 430);  // 27500 samples per rank in batches of 64
  EXPECT_EQ(plan.total_steps, 5 * 430);
  EXPECT_EQ(plan.lr, 0.05);
  EXPECT_THAT(train::explain(plan), HasSubstr("batch         128 = 2 x 64"));
}

TEST(Plan, TheBatchIsGlobalAndSharedEqually) {
  EXPECT_EQ(resolve({.batch_size = 90}, 3).batch_per_rank, 30);
  EXPECT_THAT(refusal_of([] { resolve({.batch_size = 100}, 3); }), HasSubstr("take 99 or 102"));
  EXPECT_THAT(refusal_of([] { resolve({.batch_size = 2}, 3); }), HasSubstr("take 3"));
}

TEST(Plan, SingleMeansOneRank) {
  EXPECT_EQ(resolve({.strategy = "single"}).options.strategy, "single");
  EXPECT_THAT(refusal_of([] { resolve({.strategy = "single"}, 2); }), HasSubstr("--strategy ddp"));
  EXPECT_THAT(refusal_of([] { resolve({.strategy = "dpp"}); }), HasSubstr("did you mean \"ddp\"?"));
}

TEST(Plan, RefusesNumbersOutOfRange) {
  EXPECT_THAT(refusal_of([] { resolve({.epochs = 0}); }),
              HasSubstr("--epochs: at least 1 (got 0)"));
  EXPECT_THAT(refusal_of([] { resolve({.lr = 0.0}); }), HasSubstr("--lr"));
  EXPECT_THAT(refusal_of([] { resolve({.batch_size = -1}); }), HasSubstr("--batch-size"));
  EXPECT_THAT(refusal_of([] { resolve({.validation_samples = 60000}); }),
              HasSubstr("left for training"));
}

TEST(Plan, RefusesUnknownNames) {
  EXPECT_THAT(refusal_of([] { resolve({.optimizer = "sdg"}); }),
              HasSubstr("did you mean \"sgd\"?"));
}

TEST(Plan, ResumeTakesOverWhatWasNotSaid) {
  train::TrainOptions before;
  before.model = "lenet";
  before.lr = 0.2;
  before.epochs = 3;
  const Json plan = train::to_json(resolve(before));
  train::TrainOptions now;
  now.epochs = 9;
  train::take_over(plan, {"epochs"}, now);
  EXPECT_EQ(now.model, "lenet");
  EXPECT_EQ(now.lr, 0.2);
  EXPECT_EQ(now.epochs, 9);
}

TEST(Plan, ResumeRefusesToChangeTheNumbers) {
  const Json plan = train::to_json(resolve({}));
  train::TrainOptions now;
  now.model = "mlp";
  now.batch_size = 64;
  const std::string error = refusal_of([&] {
    train::take_over(plan, {"model", "batch_size"}, now);
  });
  EXPECT_THAT(error, HasSubstr("model was cnn, now mlp; batch_size was 128, now 64"));
}

}  // namespace
}  // namespace muster
