#include <algorithm>
#include <limits>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/train/classifier/train_data.h"
#include "muster/train/classifier/train_plan.h"
#include "muster/train/plan/option_infos.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

using test::error_of;
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

/// The options of a user who said these.
train::TrainOptions said(const std::function<void(train::TrainOptions&)>& say) {
  train::TrainOptions options;
  say(options);
  return options;
}

train::TrainPlan resolve(const train::TrainOptions& options,
                         int64_t world = 1,
                         int64_t samples = 60000) {
  static const auto usual = images(60000), test = images(100);  // a fingerprint reads all of it
  return train::resolve(options,
                        {.world_size = world, .local_world_size = world, .cores = 4},
                        samples == 60000 ? *usual : *images(samples),
                        *test);
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

/// Of rows whose target is a number.
train::TrainPlan resolve_regression(train::TrainOptions options) {
  static const test::Folder folder;
  const std::filesystem::path file = folder.path() / "rows.csv";
  std::string rows = "a,price\n";
  for (int i = 0; i < 40; ++i) rows += concat(i, ',', 0.5 + i, '\n');
  write_file_atomic(file, rows);
  options.data = concat("csv:", file.string(), ",target=price,target_kind=number");
  options.model = "mlp";
  options.batch_size = 4;
  options.validation_samples = 4;
  const train::TrainData data = train::open_data(options.data, {});
  return train::resolve(
      options, {.world_size = 1, .local_world_size = 1, .cores = 4}, *data.train, *data.test);
}

// What shells offer is what help says: "last|best". A kind of device is taken, too, where this machine
// has none: that is another error.
TEST(Plan, EveryWordThatHelpNamesIsTaken) {
  train::TrainOptions options;
  options.weights = "a.safetensors";  // --head new is about them
  options.ema_decay = 0.9;            // and --ema-buffers about that
  options.gradient_clip_val = 1;      // and --gradient-clip-algorithm
  int words = 0;
  const auto stands_for_another = [](char c) { return (c >= 'A' && c <= 'Z') || c == ','; };
  train::visit_options(options, [&](const train::OptionInfo& info, auto& value) {
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      const std::string before = value;
      for (const std::string& word : split(info.value, '|')) {
        if (std::ranges::any_of(word, stands_for_another)) continue;
        ++words;
        value = word;
        try {
          resolve(options);
        } catch (const Error& error) {
          if (error_of([&] { resolve_regression(options); }) == test::kNoError) continue;
          const bool is_missing = info.name == "device" && error.kind() == ErrorKind::kEnvironment;
          EXPECT_TRUE(is_missing) << info.name << ' ' << word << ": " << error.what();
        }
      }
      value = before;
    }
  });
  // activations, head, strategy and backend, device, precision, matmul precision, buffers, split,
  // monitor, test weights, tensorboard, on-oom, clip algorithm, loss
  EXPECT_EQ(words, 2 + 2 + 2 + 3 + 3 + 3 + 2 + 4 + 5 + 2 + 3 + 3 + 2 + 6);
}

TEST(Plan, TheBatchIsGlobalAndSharedEqually) {
  EXPECT_EQ(resolve(said([&](auto& o) { o.batch_size = 90; }), 3).batch_per_rank, 30);
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.batch_size = 100; }), 3); }),
              HasSubstr("take 99 or 102"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.batch_size = 2; }), 3); }),
              HasSubstr("take 3"));
}

TEST(Plan, SingleMeansOneRank) {
  EXPECT_EQ(resolve(said([&](auto& o) { o.strategy = "single"; })).options.strategy, "single");
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.strategy = "single"; }), 2); }),
              HasSubstr("--strategy ddp"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.strategy = "dpp"; })); }),
              HasSubstr("did you mean \"ddp\"?"));
}

TEST(Plan, AStrategyThatOthersCallOtherwiseIsHintedAt) {
  const std::string text =
      refusal_of([&] { resolve(said([&](auto& o) { o.strategy = "zero3"; })); });
  EXPECT_THAT(text, HasSubstr("unknown strategy \"zero3\""));
  EXPECT_THAT(text, HasSubstr("it is \"fsdp\" here"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.strategy = "zero4"; })); }),
              HasSubstr("did you mean \"zero"));
}

TEST(Plan, ABudgetWithAColonTooManyIsOneClearError) {
  EXPECT_EQ(
      refusal_of(
          [&] { resolve(said([&](auto& o) { o.activation_checkpointing = "budget::512MiB"; })); }),
      "--activation-checkpointing: off, blocks, every:K or budget:BYTES, K and BYTES at least 1 "
      "(got budget::512MiB)\nhint: one colon: budget:512MiB, for one");
}

TEST(Plan, RefusesNumbersOutOfRange) {
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.epochs = 0; })); }),
              HasSubstr("--epochs: at least 1 (got 0)"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.lr = 0.0; })); }), HasSubstr("--lr"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.batch_size = -1; })); }),
              HasSubstr("--batch-size"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.validation_samples = 60000; })); }),
              HasSubstr("must be left to train on"));
}

TEST(Plan, RefusesCountsWhoseProductsWouldNotFit) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto refused = [](const train::TrainOptions& options) {
    return refusal_of([&] { resolve(options); });
  };
  EXPECT_THAT(refused(said([&](auto& o) {
                o.batch_size = int64_t{1} << 62;
                o.accumulate_grad_batches = 4;
              })),
              HasSubstr("--batch-size: at most 2147483647 (got 4611686018427387904)"));
  EXPECT_THAT(refused(said([&](auto& o) { o.accumulate_grad_batches = kHuge; })),
              HasSubstr("--accumulate-grad-batches"));
  EXPECT_THAT(refused(said([&](auto& o) { o.epochs = kHuge; })),
              HasSubstr("--epochs: at most 2147483647"));
  EXPECT_THAT(refused(said([&](auto& o) { o.workers = 100000; })),
              HasSubstr("--workers: at most 1024"));
  EXPECT_THAT(refused(said([&](auto& o) {
                o.strategy = "dp";
                o.devices = "100000";
                o.batch_size = 100000;
              })),
              HasSubstr("--devices: at most 1024"));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const train::TrainPlan plan = resolve(said([&](auto& o) {
    o.epochs = kMost;
    o.batch_size = kMost;
    o.accumulate_grad_batches = kMost;
  }));
  EXPECT_EQ(plan.steps_per_epoch, 1);
  EXPECT_EQ(plan.total_steps, kMost);
}

TEST(Plan, RefusesMoreTopAnswersThanThereAreClasses) {
  EXPECT_EQ(refusal_of([&] { resolve(said([&](auto& o) { o.top_k = 99; })); }),
            "--top-k: at most the 10 classes of the data (got 99)");
  EXPECT_EQ(resolve(said([&](auto& o) { o.top_k = 10; })).options.top_k, 10);
}

TEST(Plan, SaysThatMoreThreadRanksThanCoresTakeTurns) {
  EXPECT_THAT(train::explain(resolve(said([&](auto& o) {
                o.strategy = "dp";
                o.devices = "64";
              }))),
              HasSubstr("64 ranks share 4 cores"));
  EXPECT_TRUE(resolve(said([&](auto& o) {
                o.strategy = "dp";
                o.devices = "4";
              })).remarks.empty());
}

// 60000 - 5000 samples in batches of 128: 429 whole ones and 88 samples.
TEST(Plan, DropLastLeavesOutABatchThatIsNotWhole) {
  const train::TrainPlan plan = resolve(said([&](auto& o) { o.drop_last = true; }));
  EXPECT_EQ(plan.samples_per_epoch, 429 * 128);
  EXPECT_EQ(plan.steps_per_epoch, 429);
  EXPECT_EQ(resolve(said([&](auto& o) {
              o.accumulate_grad_batches = 2;
              o.drop_last = true;
            })).steps_per_epoch,
            215);
  EXPECT_EQ(resolve(said([&](auto& o) {
              o.batch_size = 55000;
              o.drop_last = true;
            })).steps_per_epoch,
            1);
  EXPECT_THAT(refusal_of([&] {
                resolve(said([&](auto& o) {
                  o.batch_size = 55001;
                  o.drop_last = true;
                }));
              }),
              HasSubstr("an epoch has at least one whole batch"));
}

// Behind four halvings of 28 x 28, resnet18 normalises one value per sample and channel.
TEST(Plan, RefusesALastBatchThatBatchNormCannotTrainOn) {
  const auto with = [](train::TrainOptions options, int64_t samples, int64_t world = 1) {
    options.validation_samples = 0;
    return [=] { resolve(options, world, samples); };
  };
  const std::string refused = refusal_of(with(said([&](auto& o) {
                                                o.model = "resnet18";
                                                o.batch_size = 8;
                                              }),
                                              97));
  EXPECT_THAT(refused, HasSubstr("batches of 8 from 97 samples"));
  EXPECT_THAT(refused, HasSubstr("--drop-last"));
  // Two ranks: 11 = 8 + 3, of which one rank has one.
  EXPECT_THAT(refusal_of(with(said([&](auto& o) {
                                o.model = "resnet18";
                                o.batch_size = 8;
                              }),
                              11,
                              2)),
              HasSubstr("--drop-last"));
  EXPECT_THAT(refusal_of(with(said([&](auto& o) {
                                o.model = "resnet18";
                                o.batch_size = 2;
                              }),
                              100,
                              2)),
              HasSubstr("--batch-size 4 or more"));
  with(said([&](auto& o) {
         o.model = "resnet18";
         o.batch_size = 8;
         o.drop_last = true;
       }),
       97)();
  with(said([&](auto& o) {
         o.model = "resnet18";
         o.batch_size = 8;
       }),
       98)();
  with(said([&](auto& o) {
         o.model = "cnn";
         o.batch_size = 8;
       }),
       97)();  // 14 x 14 values of each sample
}

// Before a folder is made for the run.
TEST(Plan, RefusesParametersThatTheModelCannotBeMadeFrom) {
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.model = "cnn:width=0"; })); }),
              HasSubstr("width=0"));
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.model = "cnn:width=x"; })); }),
              HasSubstr("\"width\""));
}

TEST(Plan, RefusesUnknownNames) {
  EXPECT_THAT(refusal_of([&] { resolve(said([&](auto& o) { o.optimizer = "sdg"; })); }),
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

// A job that is restarted says the same words each time.
TEST(Plan, ResumeTakesWordsThatLeaveItToTheRun) {
  const Json plan = train::to_json(resolve({}));
  train::TrainOptions now;  // each as it is when nobody says it
  const std::vector<std::string> said{"monitor", "loss", "validation_split", "validation_samples"};
  train::take_over(plan, said, now);
  EXPECT_EQ(now.monitor, "validate_accuracy");
  EXPECT_EQ(now.validation_samples, plan.at("validation_samples").get<int64_t>());
  EXPECT_GT(now.validation_samples, 0);
  now.monitor = "validate_loss";
  EXPECT_THAT(refusal_of([&] { train::take_over(plan, said, now); }),
              HasSubstr("monitor was validate_accuracy, now validate_loss"));
  now.monitor = "auto";
  now.sync_batch_norm = true;
  EXPECT_THAT(refusal_of([&] { train::take_over(plan, {"sync_batch_norm"}, now); }),
              HasSubstr("sync_batch_norm was off, now on"));
}

TEST(Plan, AnOptionThatIsNewerThanTheCheckpointHadItsDefaultThere) {
  Json plan = train::to_json(resolve({}));
  plan.erase("drop_last");
  train::TrainOptions now;
  train::take_over(plan, {"drop_last"}, now);  // said, and as it was
  now.drop_last = true;
  EXPECT_THAT(refusal_of([&] { train::take_over(plan, {"drop_last"}, now); }),
              HasSubstr("drop_last was false, now true"));
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
