// `--precision` against torch.autocast and torch.amp.GradScaler on the CPU, from
// tests/golden/mixed_precision/golden.json.
#include <fstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/train/loop/mixed_run.h"

namespace muster {
namespace {

using test::Ran;

struct Images {
  std::shared_ptr<data::TensorDataset> dataset;

  Images() {
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(70);
    const torch::Tensor images = torch::rand({32, 1, 4, 4}, generator) * 4 - 2;
    const torch::Tensor labels = torch::randint(0, 4, {32}, generator, torch::kLong);
    dataset = std::make_shared<data::TensorDataset>(images, labels, /*classes=*/4);
  }
};

train::TrainOptions options_of(const Json& expected) {
  train::TrainOptions options;
  options.model = "mlp:hidden=8,layers=1";
  options.data = "synthetic";  // a name; the samples are given
  options.precision = expected.at("precision");
  options.optimizer = expected.at("optimizer");
  options.lr = expected.at("lr").get<double>();
  options.gradient_clip_val = expected.at("clip");
  options.seed = 7;
  options.epochs = 3;
  options.batch_size = 8;
  options.validation_samples = 0;
  options.workers = 0;
  return options;
}

Ran train_as(const Json& expected) {
  const Images images;
  const test::Folder folder;
  train::FitResult result;
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    const train::TrainPlan plan =
        train::resolve(options_of(expected), {.cores = 2}, *images.dataset, *images.dataset);
    result = train::train(plan,
                          {.train = images.dataset, .test = images.dataset},
                          group,
                          folder.path(),
                          std::nullopt,
                          {});
  });
  return {result, train::read_checkpoint(result.checkpoint)};
}

torch::Tensor parameters_of(const train::Checkpoint& checkpoint) {
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : checkpoint.model) all.push_back(tensor.flatten());
  return torch::cat(all).to(torch::kDouble);
}

TEST(MixedGolden, EndsWhereTorchEndsWithTheSameScaleAndTheSameStepsLeftOut) {
  const Json cases = test::read_golden("mixed_precision").at("cases");
  ASSERT_EQ(cases.size(), 8);
  for (const Json& expected : cases) {
    const std::string name = concat(expected.at("precision").get<std::string>(),
                                    " with ",
                                    expected.at("optimizer").get<std::string>(),
                                    ", clip ",
                                    expected.at("clip").get<double>());
    const Ran ran = train_as(expected);
    const torch::Tensor theirs =
        torch::tensor(expected.at("parameters").get<std::vector<double>>(), torch::kDouble);
    const double distance = (parameters_of(ran.last) - theirs).abs().max().item<double>();
    // Far nearer than the same run without autocast.
    EXPECT_LE(distance, expected.at("tolerance").get<double>()) << name;
    EXPECT_LT(expected.at("tolerance").get<double>(),
              expected.at("from_float32").get<double>() / 2);
    if (expected.at("scale").is_null()) continue;
    EXPECT_EQ(ran.result.skipped_steps, expected.at("skipped").get<int64_t>()) << name;
    const Json& scaler = ran.last.loop.at("scaler");
    EXPECT_EQ(scaler.at("scale"), expected.at("scale")) << name;
    EXPECT_EQ(scaler.at("_growth_tracker"), expected.at("growth_tracker")) << name;
  }
}

}  // namespace
}  // namespace muster
