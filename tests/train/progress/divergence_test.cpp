// Runs that diverge: how they end, and what they leave.
#include <cmath>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/checkpoints/model_state.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using test::small_run;
using ::testing::HasSubstr;

/// The error that a run on two ranks ends with, the same on both.
std::string divergence(const train::TrainOptions& options, const std::filesystem::path& output) {
  std::vector<std::string> errors(2);
  const train::TrainData data = train::open_data(options.data, {});
  run_ranks(2, [&](ProcessGroup group) {
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = 2, .local_world_size = 2, .cores = 2}, *data.train, *data.test);
    errors[group.rank()] = test::refusal_of(
        [&] { train::train(plan, data, group, output, {}, {}); }, ErrorKind::kEnvironment);
  });
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

// No loss comes behind the last step: its weights are looked at.
TEST(Divergence, WeightsThatTheLastStepMadeInfiniteEndTheRunAndAreNotSaved) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=8";
  options.optimizer = "sgd:momentum=0";
  options.lr = 1e39;  // beyond float32 after one step
  options.max_steps = 1;
  const std::string error = divergence(options, folder.path());
  EXPECT_THAT(error, HasSubstr("is not finite after step 1 (epoch 1)"));
  EXPECT_THAT(error, HasSubstr("the tensor "));
  EXPECT_THAT(error, HasSubstr("no checkpoint was written yet"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "latest"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "best"));
  EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("failed after 1 step"));
}

TEST(Divergence, ADivergedRunKeepsTheLastFiniteCheckpointAsBestAndLatest) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=8";
  options.optimizer = "sgd:momentum=0";
  options.epochs = 3;
  options.lr = 0.01;
  // 13 steps per epoch: the first is sound, and the last step of the second leaves float32.
  options.lr_schedule = "multi_step:milestones=25,gamma=1e300,unit=step";
  const std::string error = divergence(options, folder.path());
  EXPECT_THAT(error, HasSubstr("is not finite after step 26 (epoch 2)"));
  EXPECT_THAT(error, HasSubstr("the checkpoint of step 13 is intact"));
  EXPECT_EQ(read_file(folder.path() / "latest"), "step-13\n");
  EXPECT_EQ(read_file(folder.path() / "best"), "step-13\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints/step-26"));
}

TEST(Divergence, AValidationLossThatIsNotFiniteEndsTheRun) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=8";
  options.optimizer = "sgd:momentum=0";
  options.batch_size = 200;  // one step per epoch
  options.lr = 1e30;         // finite weights, infinite scores
  EXPECT_THAT(divergence(options, folder.path()),
              HasSubstr("the validation loss is not finite after step 1 (epoch 1)"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "latest"));
  EXPECT_THAT(read_file(folder.path() / "metrics.jsonl"), HasSubstr("\"loss\":null"));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), HasSubstr("1,1,validate,nan,"));
}

TEST(ModelState, NamesTheFirstTensorThatIsNotFinite) {
  const torch::Tensor large =
      torch::full({100}, std::numeric_limits<double>::max(), torch::kDouble);
  const torch::Tensor counts = torch::ones({2}, torch::kLong);
  EXPECT_EQ(train::first_not_finite({{"counts", counts}, {"large", large}}), std::nullopt);
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      torch::Tensor tensor = torch::ones({3, 5}, dtype);
      tensor[2][4] = bad;
      EXPECT_EQ(train::first_not_finite({{"large", large}, {"b", tensor}, {"c", tensor}}), "b");
    }
  }
}

TEST(ModelState, ABufferThatIsMadeWithInfinitiesMayKeepThemButHasNoNan) {
  torch::nn::Module module;
  torch::Tensor mask =
      module.register_buffer("mask", torch::full({2, 2}, -HUGE_VAL, torch::kFloat).triu(1));
  torch::Tensor mean = module.register_buffer("mean", torch::zeros({2}));
  const auto infinite = train::infinite_buffers(module);
  EXPECT_EQ(infinite, std::set<std::string>{"mask"});
  const auto bad = [&] { return train::first_not_finite(train::model_state(module), infinite); };
  EXPECT_EQ(bad(), std::nullopt);
  mean[0] = HUGE_VAL;
  EXPECT_EQ(bad(), "mean");
  mean[0] = 0;
  mask[0][0] = std::nan("");
  EXPECT_EQ(bad(), "mask");
}

}  // namespace
}  // namespace muster
