// Fine-tuning: --weights of other classes with --head new, --freeze, --lr-factor.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/tensor/safetensors.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/task_parts.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Ran;
using test::refusal_of;
using test::run;
using test::small_run;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, torch::Tensor>;

Tensors tensors_of(const tensor::NamedTensorList& list) {
  Tensors all;
  for (const auto& [name, tensor] : list) all[name] = tensor.detach().clone();
  return all;
}

/// A file of weights of that model for so many classes.
fs::path weights_of(const std::string& model,
                    int64_t classes,
                    const fs::path& folder,
                    int64_t channels = 1,
                    int64_t size = 8) {
  torch::manual_seed(33);
  const auto [name, params] = parse_spec(model);
  const auto net = models::make_model(
      name, {.channels = channels, .height = size, .width = size, .classes = classes}, params);
  fs::path file = folder / "weights.safetensors";
  tensor::write_safetensors(file, {train::model_state(*net), {}});
  return file;
}

Tensors start_of(const train::TrainOptions& options) {
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  const auto task = train::make_seeded(train::classifier_maker(plan, false), options.seed);
  return tensors_of(train::model_state(*task->module()));
}

TEST(HeadNew, TakesAThousandClassResNetToTen) {
  const test::Folder folder;
  train::TrainOptions options;
  options.model = "resnet18";
  options.data = "synthetic:samples=40,test_samples=8,size=32,classes=10";
  options.batch_size = 8;
  const Tensors drawn = start_of(options);
  options.weights = weights_of("resnet18", 1000, folder.path(), 3, 32);
  options.head = "new";
  const Tensors start = start_of(options);
  const Tensors file = tensors_of(tensor::read_safetensors(options.weights).tensors);
  ASSERT_EQ(file.at("fc.weight").size(0), 1000);
  for (const auto& [name, tensor] : start) {
    const bool is_head = name.starts_with("fc.");
    EXPECT_TRUE(torch::equal(tensor, (is_head ? drawn : file).at(name))) << name;
  }
  options.head = "keep";
  EXPECT_THAT(refusal_of([&] { start_of(options); }), HasSubstr("--head new"));
}

TEST(HeadNew, TrainsWithAFrozenOrASlowerBackboneAndGoesOn) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.weights = weights_of(options.model, 7, folder.path());
  options.head = "new";
  options.freeze = "conv,bn,fc1";
  const Tensors file = tensors_of(tensor::read_safetensors(options.weights).tensors);
  const test::Folder frozen_folder;
  const Ran frozen = run(options, 2, frozen_folder.path(), {}, 5);
  for (const auto& [name, tensor] : frozen.last.model)
    EXPECT_EQ(!name.starts_with("fc2."), file.at(name).equal(tensor)) << name;
  fs::remove(options.weights);  // a resumed run needs it no more
  const Ran resumed = run(options, 2, frozen_folder.path(), frozen.result.checkpoint);
  EXPECT_EQ(resumed.last.position.step, 26);
}

// One step of plain SGD moves a weight by lr * gradient, times its factor.
TEST(LrFactor, IsOfTheStepAndTheLastPatternHolds) {
  train::TrainOptions options = small_run();
  options.optimizer = "sgd:momentum=0";
  options.lr = 0.25;
  options.max_steps = 1;
  const Tensors start = start_of(options);
  const test::Folder with_folder, without_folder;
  const Tensors without = tensors_of(run(options, 1, without_folder.path()).last.model);
  options.lr_factor = "*=0.5, fc2=1 ,conv1=0";
  const Tensors with = tensors_of(run(options, 1, with_folder.path()).last.model);
  int64_t moved = 0;
  for (const auto& [name, first] : start) {
    if (!first.is_floating_point() || name.find("running") != name.npos) continue;
    const double factor = name.starts_with("fc2") ? 1 : name.starts_with("conv1") ? 0 : 0.5;
    const torch::Tensor whole = without.at(name) - first;
    EXPECT_TRUE(torch::allclose(with.at(name) - first, whole * factor, 1e-4, 1e-7)) << name;
    moved += whole.abs().max().item<double>() > 1e-6 ? 1 : 0;
  }
  EXPECT_GT(moved, 6);
}

TEST(LrFactor, RefusesWhatIsNoFactorOfAParameter) {
  const auto refused = [](const char* factors) {
    train::TrainOptions options = small_run();
    options.lr_factor = factors;
    const test::Folder folder;
    return refusal_of([&] { run(options, 1, folder.path()); });
  };
  for (const char* bad : {"fc2", "fc2=", "fc2=-1", "=1", "fc2=x", "fc2=1,,conv=1", "fc2=inf"})
    EXPECT_THAT(refused(bad), HasSubstr("--lr-factor: PATTERN=X")) << bad;
  EXPECT_THAT(refused("fc9=1"), HasSubstr("each pattern is like a parameter"));
}

TEST(HeadNew, IsRefusedWithoutWeights) {
  train::TrainOptions options = small_run();
  options.head = "new";
  EXPECT_THAT(refusal_of([&] { start_of(options); }), HasSubstr("--weights"));
  options.head = "old";
  EXPECT_THAT(refusal_of([&] { start_of(options); }), HasSubstr("keep or new"));
}

}  // namespace
}  // namespace muster
