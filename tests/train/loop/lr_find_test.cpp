// --lr find in a run: what it finds, and that it leaves no trace in the run behind it.
#include "muster/train/loop/lr_find.h"

#include <atomic>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::expect_same_state;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_noted;
using test::small_mlp;
using test::small_run;
using ::testing::Contains;
using ::testing::HasSubstr;

double found_in(const fs::path& output) {
  return Json::parse(read_file(output / "config.json")).at("lr").get<double>();
}

/// The same run with that number.
void expect_as_with_the_number(train::TrainOptions options, int world) {
  const test::Folder found_folder, said_folder;
  const Ran found = run(options, world, found_folder.path());
  options.lr = found_in(found_folder.path());
  const Ran said = run(options, world, said_folder.path());
  expect_same_state(found.last, said.last);
  ASSERT_EQ(found.last.rng.size(), said.last.rng.size());
  for (size_t i = 0; i < found.last.rng.size(); ++i)
    EXPECT_TRUE(torch::equal(found.last.rng[i].second, said.last.rng[i].second));
  EXPECT_EQ(found.last.plan, said.last.plan);
}

train::LearningRate searched(const std::string& spec) {
  train::LearningRate rate;
  rate.search = spec;
  return rate;
}

TEST(LrFind, LeavesNoTraceInTheRunBehindIt) {
  for (const char* strategy : {"single", "ddp", "zero2"}) {
    train::TrainOptions options = small_run();
    options.model = "lstm:hidden=8,layers=2,dropout=0.3";  // draws while it trains
    options.strategy = strategy;
    options.lr = searched("find:steps=40,min=1e-5");  // three epochs and a bit
    options.lr_schedule = "one_cycle";
    SCOPED_TRACE(strategy);
    expect_as_with_the_number(options, std::string_view(strategy) == "single" ? 1 : 2);
  }
  train::TrainOptions options = small_run();
  options.batch_size = 12;
  options.lr = searched("find:steps=20,min=1e-4");
  options.comm_hook = "powersgd:start=0,min_compression_rate=1";
  options.ema_decay = 0.9;
  options.optimizer = "adamw";
  expect_as_with_the_number(options, 3);
}

/// What a loop by hand finds: steps of plain SGD from the same weights, in the same order.
TEST(LrFind, MakesTheStepsOfALoopByHand) {
  train::TrainOptions options = small_mlp();
  options.optimizer = "sgd:momentum=0";
  options.lr = searched("find:steps=30,min=1e-3,max=10");
  options.validation_split = "tail";  // the loop below takes the first 200
  options.max_steps = 1;
  const test::Folder folder;
  run_noted(options, folder.path());
  const auto rows = split(trim(read_file(folder.path() / "lr_find.csv")), '\n');
  ASSERT_GT(rows.size(), 13U);

  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  torch::manual_seed(options.seed);
  const auto model = models::make_model(plan.model_name, plan.model_shape, plan.model_params);
  torch::optim::SGD sgd(model->parameters(), 1e-3);
  size_t row = 1;
  for (int64_t epoch = 0; row < rows.size(); ++epoch) {
    auto generator =
        torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(options.seed + epoch));
    const torch::Tensor order = torch::randperm(200, generator, torch::kLong);
    for (int64_t at = 0; at < 200 && row < rows.size(); at += 16, ++row) {
      const torch::Tensor part = order.narrow(0, at, std::min<int64_t>(16, 200 - at)).contiguous();
      const data::Batch batch = data.train->get(
          std::span(part.const_data_ptr<int64_t>(), static_cast<size_t>(part.numel())));
      const auto columns = split(rows[row], ',');
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(model->forward(batch["data"]), batch["target"]);
      EXPECT_NEAR(loss.item<double>(), to_double(columns[1]).value_or(0), 2e-5) << row;
      sgd.zero_grad();
      loss.backward();
      static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options())
          .lr(to_double(columns[0]).value_or(0));
      sgd.step();
    }
  }
}

TEST(LrFind, TellsWhatItFoundAndAResumedRunSearchesNoMore) {
  train::TrainOptions options = small_mlp();
  options.lr = searched("find:min=1e-5");
  const test::Folder folder;
  const test::Noted first = run_noted(options, folder.path(), {}, 103);  // 100 of the search
  EXPECT_THAT(first.notes, Contains(HasSubstr("learning rate ")));
  const double lr = found_in(folder.path());
  EXPECT_TRUE(fs::exists(folder.path() / "lr_find.svg"));
  EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("lr_find.svg"));
  const train::Checkpoint saved = train::load_checkpoint(folder.path());
  EXPECT_EQ(saved.plan.at("lr").get<double>(), lr);
  train::TrainOptions again = options;
  train::take_over(saved.plan, {"lr"}, again);
  EXPECT_EQ(again.lr, lr);
  const test::Noted second = run_noted(again, folder.path(), folder.path());
  EXPECT_THAT(second.notes, ::testing::Not(Contains(HasSubstr("find"))));
  EXPECT_EQ(found_in(folder.path()), lr);
}

// What it would find is the rate of the rest: no search, and none that nobody hears of.
TEST(LrFind, IsRefusedForARunThatBeganWithANumber) {
  train::TrainOptions options = small_mlp();
  options.lr = 0.05;
  const test::Folder folder;
  run_noted(options, folder.path(), {}, 3);
  const train::Checkpoint saved = train::load_checkpoint(folder.path());
  train::TrainOptions again = options;
  again.lr = searched("find:steps=20");
  const auto says = AllOf(HasSubstr("--lr find:steps=20: it searches before a run's first step"),
                          HasSubstr("(got a run that began with 0.05)"));
  EXPECT_THAT(refusal_of([&] { train::take_over(saved.plan, {"lr"}, again); }), says);
  EXPECT_THAT(refusal_of([&] { run_noted(again, folder.path(), folder.path()); }), says);
}

TEST(LrFind, StaysWhatARunBeganWithOverTwoResumes) {
  train::TrainOptions options = small_mlp();
  options.lr = searched("find:min=1e-5");
  const test::Folder folder;
  run_noted(options, folder.path(), {}, 103);
  const double lr = found_in(folder.path());
  for (int i = 0; i < 2; ++i) {
    const train::Checkpoint saved = train::load_checkpoint(folder.path());
    train::TrainOptions again = options;
    train::take_over(saved.plan, {"lr"}, again);
    EXPECT_EQ(again.lr, lr);
    EXPECT_EQ(again.lr.found_by, "find:min=1e-5");
    run_noted(again, folder.path(), folder.path(), 1);
  }
}

TEST(LrFind, EndsWhenTheRunIsToStop) {
  train::TrainOptions options = small_run();
  options.lr = searched("find:steps=1000");
  const test::Folder folder;
  const train::TrainData data = train::open_data(options.data, {});
  options.strategy = "ddp";
  options.devices = "2";
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  std::atomic<int> asked = 0;
  const train::FitResult result = train::train_on_threads(
      plan, data, folder.path(), {}, {.stop_requested = [&] { return ++asked > 10; }});
  EXPECT_TRUE(result.interrupted);
  EXPECT_LE(asked, 14);
  EXPECT_EQ(result.steps, 0);
  EXPECT_TRUE(result.checkpoint.empty());
  EXPECT_FALSE(fs::exists(folder.path() / "config.json"));
}

TEST(LrFind, SaysSoWhereThereIsNothingToFind) {
  train::TrainOptions options = small_mlp();
  options.lr = searched("find:min=1e25,max=1e38");  // infinite at once
  const test::Folder folder;
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path()); }),
              HasSubstr("before the loss diverged"));
  EXPECT_FALSE(fs::exists(folder.path() / "config.json"));
  options.lr = searched("find:steps=20");
  options.precision = "16-mixed:init_scale=1e30";
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path()); }),
              HasSubstr("some of its steps change the weights (got all 20 were left out"));
  options.precision = "32";
  options.lr = searched("find");
  options.fast_dev_run = true;
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  EXPECT_EQ(plan.options.lr, plan.lr);
  EXPECT_THAT(plan.remarks, Contains(HasSubstr("no learning rate")));
}

}  // namespace
}  // namespace muster
