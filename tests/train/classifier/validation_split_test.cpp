// Which samples `muster train` holds out.
#include "muster/train/classifier/validation_split.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/data/transform/transformed.h"
#include "muster/train/classifier/train_data.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// 60 samples sorted by class, as a folder of images is: 30, 20 and 10 of three classes.
std::shared_ptr<const data::Dataset> sorted_by_class(int64_t classes = 3) {
  const at::Tensor target = torch::cat({torch::zeros({30}, torch::kLong),
                                        torch::ones({20}, torch::kLong),
                                        torch::full({10}, 2, torch::kLong)});
  return std::make_shared<data::TensorDataset>(
      torch::arange(60).to(torch::kFloat).view({60, 1, 1, 1}), target, classes);
}

std::vector<int64_t> numbers_of(const data::Dataset& part) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < part.size(); ++i)
    all.push_back(part.get({&i, 1})["data"].item<int64_t>());
  return all;
}

TrainOptions asked(const std::string& split, int64_t samples, int64_t seed = 0) {
  TrainOptions options;
  options.validation_split = split;
  options.validation_samples = samples;
  options.seed = seed;
  return options;
}

TrainParts parts_of(TrainOptions options) {
  resolve_validation(options, *sorted_by_class());
  return split_off(options, sorted_by_class());
}

TEST(ValidationSplit, HoldsOutEqualSharesOfTheClassesByDefault) {
  TrainOptions options = asked("auto", -1);
  resolve_validation(options, *sorted_by_class());
  EXPECT_EQ(options.validation_split, "stratified");
  EXPECT_EQ(options.validation_samples, 5);  // a twelfth
  const TrainParts parts = parts_of(asked("auto", 12));
  std::map<int64_t, int64_t> classes;
  const at::Tensor targets = parts.validation->targets();
  for (int64_t i = 0; i < targets.numel(); ++i) ++classes[targets[i].item<int64_t>()];
  EXPECT_EQ(classes, (std::map<int64_t, int64_t>{{0, 6}, {1, 4}, {2, 2}}));
  std::vector<int64_t> all = numbers_of(*parts.train), held_out = numbers_of(*parts.validation);
  all.insert(all.end(), held_out.begin(), held_out.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, numbers_of(*sorted_by_class()));
}

TEST(ValidationSplit, IsDrawnFromTheSeedOrIsTheTail) {
  const auto held_out = [](const std::string& split, int64_t seed) {
    return numbers_of(*parts_of(asked(split, 4, seed)).validation);
  };
  for (const char* split : {"stratified", "random"}) {
    EXPECT_EQ(held_out(split, 1), held_out(split, 1));
    EXPECT_NE(held_out(split, 1), held_out(split, 2));
  }
  EXPECT_THAT(held_out("tail", 1), ElementsAre(56, 57, 58, 59));
  EXPECT_EQ(parts_of(asked("auto", 0)).validation->size(), 0);
}

TEST(ValidationSplit, IsRandomWhereTheDataHasNoClasses) {
  TrainOptions options = asked("auto", 4);
  resolve_validation(options, *sorted_by_class(/*classes=*/0));
  EXPECT_EQ(options.validation_split, "random");
  options = asked("stratified", 4);
  EXPECT_THAT(test::error_of([&] { resolve_validation(options, *sorted_by_class(0)); }),
              HasSubstr("take --validation-split random"));
}

TEST(ValidationSplit, IsWhatAFileSays) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "held.txt";
  std::ofstream(file) << "# ours\n7\n3\n\n59 # the last\n";
  const std::string split = "file:" + file.string();
  TrainOptions options = asked(split, -1);
  resolve_validation(options, *sorted_by_class());
  EXPECT_EQ(options.validation_samples, 3);
  EXPECT_THAT(numbers_of(*split_off(options, sorted_by_class()).validation), ElementsAre(3, 7, 59));
  EXPECT_EQ(split_off(options, sorted_by_class()).train->size(), 57);

  const auto refused = [](const TrainOptions& said) {
    return test::error_of([&] { parts_of(said); });
  };
  EXPECT_THAT(refused(asked(split, 4)), HasSubstr("has 3 samples (got 4)"));
  std::ofstream(file) << "1\nx\n";
  EXPECT_THAT(refused(asked(split, -1)), HasSubstr("held.txt, line 2: the number of a sample"));
  std::ofstream(file) << "60\n";
  EXPECT_THAT(refused(asked(split, -1)), HasSubstr("among 0 to 59 (got 60)"));
  std::ofstream(file) << "# none\n";
  EXPECT_THAT(refused(asked(split, -1)), HasSubstr("it has none"));
  EXPECT_THAT(refused(asked("file:/no/such", -1)), HasSubstr("there is no such file"));
  EXPECT_THAT(refused(asked("tial", 4)), HasSubstr("did you mean \"tail\"?"));
}

TEST(ValidationSplit, OfAFileStaysWhatItWasWhenTheRunBegan) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "held.txt";
  std::ofstream(file) << "7\n3\n4\n59\n";
  TrainOptions options = asked("file:" + file.string(), -1);
  resolve_validation(options, *sorted_by_class());
  options.lr = 0.1;
  Json checkpoint = to_json(options, FitNumbers{.train_samples = 56});
  checkpoint.update(carried_json(options));
  EXPECT_FALSE(to_json(options, FitNumbers{}).contains("held_out"));  // config.json is for people

  std::ofstream(file) << "8\n9\n";
  for (const bool is_there : {true, false}) {
    if (!is_there) std::filesystem::remove(file);
    TrainOptions resumed;
    take_over(checkpoint, {}, resumed);
    resolve_validation(resumed, *sorted_by_class());
    EXPECT_THAT(numbers_of(*split_off(resumed, sorted_by_class()).validation),
                ElementsAre(3, 4, 7, 59));
  }
  checkpoint["held_out"] = "0-99";
  TrainOptions resumed;
  EXPECT_THAT(test::error_of([&] { take_over(checkpoint, {}, resumed); }),
              HasSubstr("the validation's samples in the checkpoint: at most 60 numbers"));
}

TEST(ValidationSplit, OfARunOfBeforeIsTheTail) {
  Json old;
  const TrainOptions fresh;
  old = to_json(fresh, FitNumbers{});
  old["lr"] = 0.1;
  old.erase("validation_split");
  TrainOptions resumed;
  take_over(old, {}, resumed);
  EXPECT_EQ(resumed.validation_split, "tail");
  resumed.validation_split = "random";
  EXPECT_THAT(test::error_of([&] { take_over(old, {"validation_split"}, resumed); }),
              HasSubstr("validation_split was tail, now random"));
  EXPECT_THAT(with_whole_path("file:a/../b.txt"),
              "file:" + (std::filesystem::current_path() / "b.txt").string());
  EXPECT_EQ(with_whole_path("tail"), "tail");
}

/// A class's images are of its number's brightness // [C, 6, 6] bytes
TrainData bright_images() {
  const auto set = [](int64_t samples) {
    const at::Tensor target = torch::arange(samples).remainder(4);
    const at::Tensor images =
        (target * 60).to(torch::kByte).view({samples, 1, 1, 1}).expand({samples, 1, 6, 6});
    return std::make_shared<data::ImageDataset>(
        data::DataSpec{.name = "bright", .sample_shape = {1, 6, 6}, .classes = 4}, images, target);
  };
  return {.train = set(24), .test = set(8)};
}

TrainPlan plan_of_bright(const std::string& train_transform,
                         const std::string& eval_transform = "") {
  const TrainData data = bright_images();
  TrainOptions options;
  options.model = "mlp:hidden=8";
  options.batch_size = 4;
  options.train_transform = train_transform;
  options.eval_transform = eval_transform;
  return resolve(options, {.cores = 1}, *data.train, *data.test);
}

std::string refusal_of_bright(const std::string& train_transform,
                              const std::string& eval_transform = "") {
  return test::refusal_of([&] { plan_of_bright(train_transform, eval_transform); });
}

TEST(TrainTransform, ThatNormalisesOtherwiseThanEvaluationsIsTold) {
  const auto told = [](const TrainPlan& plan) { return plan.remarks; };
  EXPECT_THAT(told(plan_of_bright("normalize:mean=0.5,std=0.25")),
              Contains(HasSubstr("training images are normalised by mean 0.5 and deviation 0.25, "
                                 "validation and test images are not normalised")));
  EXPECT_THAT(told(plan_of_bright("normalize:mean=0.5,std=0.25", "normalize:mean=0.5,std=0.25")),
              IsEmpty());
  EXPECT_THAT(told(plan_of_bright("random_horizontal_flip")), IsEmpty());
}

TEST(TrainTransform, ThatNoModelTakesIsRefusedBeforeTheFirstStep) {
  EXPECT_THAT(refusal_of_bright("to_dtype:dtype=float64"),
              HasSubstr("models take float32 (got float64)"));
  EXPECT_THAT(refusal_of_bright("", "to_dtype:dtype=float64"),
              HasSubstr("--eval-transform to_dtype"));
  EXPECT_THAT(refusal_of_bright("", "grayscale:num_output_channels=3"),
              HasSubstr("as many channels as those of validation and test (got 1 and 3)"));
}

TEST(TrainTransform, ThatNoImageOfThisSizePassesIsRefusedBeforeAnyIsRead) {
  EXPECT_THAT(refusal_of_bright("pad:padding=30,padding_mode=reflect"), HasSubstr("pad"));
  EXPECT_THAT(refusal_of_bright("random_horizontal_flip|gaussian_blur:kernel_size=99"),
              HasSubstr("gaussian_blur"));
}

TEST(TrainTransform, HintsFitTheSizesThatAreThere) {
  const TrainPlan wide = plan_of_bright("fit_images:height=3");
  ASSERT_EQ(wide.remarks.size(), 1U);
  EXPECT_THAT(wide.remarks[0], HasSubstr("--eval-transform center_crop:size=[3,6] would cut them"));
  const TrainPlan larger = plan_of_bright("", "center_crop:size=4");
  ASSERT_EQ(larger.remarks.size(), 1U);
  EXPECT_THAT(larger.remarks[0], HasSubstr("to the 1 x 6 x 6 that training images have"));
  EXPECT_THAT(larger.remarks[0], Not(HasSubstr("center_crop")));
}

TEST(TrainTransform, ChangesTrainingSamplesAloneAndTheModelIsAsLargeAsTheyAre) {
  const TrainData data = bright_images();
  TrainOptions options;
  options.model = "mlp:hidden=8";
  options.batch_size = 4;
  options.train_transform = "random_crop:size=5,padding=1,fill=255";
  const TrainPlan plan = resolve(options, {.cores = 1}, *data.train, *data.test);
  EXPECT_EQ(plan.model_shape.height, 5);
  EXPECT_THAT(explain(plan),
              HasSubstr("training random_crop:size=5,padding=1,fill=255; validation"));
  ASSERT_EQ(plan.remarks.size(), 1U);
  EXPECT_THAT(plan.remarks[0], HasSubstr("--eval-transform center_crop:size=5 would cut them"));
  const FitData split = split_data(plan, data);
  const int64_t first = 0;
  bool some_differ = false;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    const auto in_epoch = [&](const std::shared_ptr<const data::Dataset>& set) {
      return set->get({&first, 1}, {.seed = 0, .epoch = epoch})["data"];
    };
    EXPECT_EQ(in_epoch(split.train).sizes(), (std::vector<int64_t>{1, 1, 5, 5}));
    EXPECT_TRUE(in_epoch(split.test).equal(split.test->get({&first, 1})["data"]));
    EXPECT_TRUE(in_epoch(split.validation).equal(split.validation->get({&first, 1})["data"]));
    some_differ =
        some_differ || !in_epoch(split.train).equal(split.train->get({&first, 1})["data"]);
  }
  EXPECT_TRUE(some_differ);
  options.eval_transform = "center_crop:size=5";
  EXPECT_TRUE(resolve(options, {.cores = 1}, *data.train, *data.test).remarks.empty());
  options.eval_transform = "center_crop:size=0";
  EXPECT_THAT(test::error_of([&] { resolve(options, {.cores = 1}, *data.train, *data.test); }),
              HasSubstr("center_crop"));
}

}  // namespace
}  // namespace muster::train
