// Strategies of `muster train`: the table, what each refuses, and that dp, ddp and single train the
// same model.
#include "muster/train/replicas/strategy.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/train/plan/placement.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using test::expect_same_state;
using test::Ran;
using test::refusal_of;
using test::run;
using test::small_run;
using ::testing::HasSubstr;

train::TrainPlan plan_for(const train::TrainOptions& options, int64_t processes = 1) {
  const train::TrainData data = train::open_data(options.data, {});
  return train::resolve(options,
                        {.world_size = processes,
                         .local_world_size = processes,
                         .cores = 2,
                         .intraop_threads = std::max<int64_t>(
                             1, train::parse_devices(options.devices).count)},  // one each
                        *data.train,
                        *data.test);
}

/// Runs `options` as --strategy dp does; stops after `stop_after` steps if not 0.
Ran run_on_threads(train::TrainOptions options,
                   int devices,
                   const std::filesystem::path& output,
                   const std::optional<std::filesystem::path>& resume = {},
                   int64_t stop_after = 0) {
  options.strategy = "dp";
  options.devices = std::to_string(devices);
  std::optional<train::Checkpoint> checkpoint;
  if (resume) checkpoint = train::read_checkpoint(*resume);
  std::atomic<int64_t> asked{0};
  const train::FitResult result = train::train_on_threads(
      plan_for(options),
      train::open_data(options.data, {}),
      output,
      checkpoint,
      {.stop_requested = [&] { return stop_after > 0 && ++asked >= stop_after * devices; }});
  return {result, train::read_checkpoint(result.checkpoint)};
}

TEST(Strategies, AutoIsSingleOnOneRankDdpOnMoreAndDpWhereDevicesAreSaid) {
  train::TrainOptions options = small_run();
  EXPECT_EQ(plan_for(options).strategy_name, "single");
  EXPECT_EQ(plan_for(options, 2).strategy_name, "ddp");
  options.devices = "4";
  const train::TrainPlan plan = plan_for(options);
  EXPECT_EQ(plan.strategy_name, "dp");
  EXPECT_EQ(plan.world_size, 4);
  EXPECT_EQ(plan.batch_per_rank, 4);
  EXPECT_THAT(train::explain(plan), HasSubstr("dp on 4 ranks, threads of this process"));
}

TEST(Strategies, TakeParametersBehindTheirName) {
  train::TrainOptions options = small_run();
  options.strategy = "ddp:bucket_mb=3";
  EXPECT_EQ(plan_for(options, 2).options.strategy, "ddp:bucket_mb=3");
  options.strategy = "ddp:bucket=3";
  EXPECT_THAT(refusal_of([&] { plan_for(options, 2); }), HasSubstr("bucket_mb"));
}

// Nothing is announced and no folder is made before.
TEST(Strategies, AreCheckedWhenThePlanIsMade) {
  const auto plan = [](const std::string& strategy, const std::string& precision = "auto") {
    train::TrainOptions options = small_run();
    options.strategy = strategy;
    if (precision != "auto") options.precision = precision;
    const bool threads = strategy.starts_with("dp");
    if (threads) options.devices = "2";
    plan_for(options, threads ? 1 : 2);
  };
  for (const std::string name : {"ddp", "dp", "zero1", "zero2"}) {
    EXPECT_NO_THROW(plan(name + ":bucket_mb=1048576"));
    for (const char* mb : {"0", "-1", "1048577", "17592186044416", "99999999999999"}) {
      EXPECT_THAT(refusal_of([&] { plan(name + ":bucket_mb=" + mb); }),
                  HasSubstr("strategy " + name + ": bucket_mb: from 1 to 1048576"));
    }
  }
  for (const std::string name : {"zero1", "zero2", "fsdp"}) {
    EXPECT_THAT(refusal_of([&] { plan(name + ":dtype=float16"); }),
                HasSubstr("dtype: float32 or bfloat16"));
    EXPECT_THAT(refusal_of([&] { plan(name + ":dtype=bfloat16", "bf16-mixed"); }),
                HasSubstr("mixed precision keeps weights and gradients in float32"));
  }
}

TEST(Strategies, DpIsOneProcessAndWantsItsDevices) {
  train::TrainOptions options = small_run();
  options.strategy = "dp";
  EXPECT_THAT(refusal_of([&] { plan_for(options); }), HasSubstr("say --devices N"));
  options.devices = "2";
  const std::string launched = refusal_of([&] { plan_for(options, 2); });
  EXPECT_THAT(launched, HasSubstr("--strategy dp: its ranks are threads of one process"));
  EXPECT_THAT(launched, HasSubstr("(got 2 processes)"));
  options.backend = "gloo";
  EXPECT_THAT(refusal_of([&] { plan_for(options); }), HasSubstr("--backend gloo"));
}

TEST(Strategies, DevicesAreRanksOfOneProcessUnderAnyStrategyOfSeveral) {
  train::TrainOptions options = small_run();
  options.devices = "2";
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp"}) {
    options.strategy = strategy;
    const train::TrainPlan plan = plan_for(options, 1);
    EXPECT_EQ(plan.threads, 2);
    EXPECT_EQ(plan.world_size, 2);
    EXPECT_THAT(refusal_of([&] { plan_for(options, 2); }),
                HasSubstr("ranks that are threads belong to one process (got 2 processes)"));
  }
  options.strategy = "single";
  EXPECT_THAT(refusal_of([&] { plan_for(options, 1); }),
              HasSubstr("it is for strategies with more than one rank"));
}

TEST(Dp, EqualsDdpBitForBitAndOneRankWithinRounding) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  const test::Folder dp_folder, ddp_folder, one_folder;
  const Ran dp = run_on_threads(options, 4, dp_folder.path());
  expect_same_state(dp.last, run(options, 4, ddp_folder.path()).last);
  EXPECT_LE(test::model_difference(dp.last, run(options, 1, one_folder.path()).last), 2e-6);
  EXPECT_EQ(dp.result.test.weight, 60);
}

TEST(Dp, StopsSavesAndGoesOnAsDdpDoes) {
  const train::TrainOptions options = small_run();
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_on_threads(options, 2, whole_folder.path());
  const Ran broken = run_on_threads(options, 2, broken_folder.path(), {}, 9);
  ASSERT_TRUE(broken.result.interrupted);
  // Begun by dp, ended by ddp.
  const Ran resumed = run(options, 2, broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
}

TEST(Dp, ReportsFromRankZeroAloneAndNamesTheRankThatFails) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=8";
  options.strategy = "dp";
  options.devices = "2";
  const torch::Tensor images = torch::rand({220, 1, 8, 8});
  images[100].fill_(std::numeric_limits<float>::quiet_NaN());
  const auto dataset =
      std::make_shared<data::TensorDataset>(images, torch::arange(220).remainder(4), /*classes=*/4);
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *dataset, *dataset);
  const test::Folder folder;
  std::set<std::thread::id> reporters;
  const std::string error = test::error_of([&] {
    train::train_on_threads(
        plan, {dataset, dataset}, folder.path(), {}, {.progress = [&](const auto&) {
          reporters.insert(std::this_thread::get_id());
        }});
  });
  EXPECT_THAT(error, ::testing::ContainsRegex("rank [01]: the loss is not finite in step"));
  EXPECT_LE(reporters.size(), 1U);
}

}  // namespace
}  // namespace muster
