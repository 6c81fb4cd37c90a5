// Training on a folder of image files, as `muster train --data folder:PATH` does.
#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/classifier/asked_classifier.h"

#include "tests/formats/image/jpeg_files.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

/// Blue, green and red images with noise, of many sizes, 20 of each.
class ImageFolderRun : public ::testing::Test {
 protected:
  ImageFolderRun() {
    std::mt19937 random(4);
    for (const auto& [name, channel] :
         {std::pair("blue", 2), std::pair("green", 1), std::pair("red", 0)}) {
      fs::create_directories(images_.path() / name);
      for (int i = 0; i < 20; ++i) {
        const int height = 14 + static_cast<int>(random() % 9),
                  width = 14 + static_cast<int>(random() % 9);
        std::vector<uint8_t> pixels(static_cast<size_t>(height * width * 3));
        for (size_t at = 0; at < pixels.size(); ++at)
          pixels[at] = static_cast<uint8_t>(random() % 90 +
                                            (static_cast<int>(at % 3) == channel ? 140 : 30));
        const auto file = test::jpeg_file({.height = height, .width = width}, std::move(pixels));
        write_file_atomic(images_.path() / name / (std::to_string(i) + ".jpg"),
                          {reinterpret_cast<const char*>(file.data()), file.size()});
      }
    }
  }

  std::string spec(const std::string& params) const {
    return "folder:" + images_.path().string() + params;
  }
  train::TrainOptions options(const std::string& params) const {
    train::TrainOptions options = test::small_run();
    options.data = spec(params);
    options.batch_size = 8;
    options.validation_samples = 6;
    options.epochs = 12;
    options.lr = 0.01;
    return options;
  }
  static train::TrainPlan plan(const train::TrainOptions& options) {
    const train::TrainData data = train::open_data(options.data, {});
    return train::resolve(
        options, {.world_size = 1, .local_world_size = 1, .cores = 2}, *data.train, *data.test);
  }

  test::Folder images_, output_;
};

TEST_F(ImageFolderRun, LearnsTheClassesAndCallsThemByTheirFolders) {
  const test::Ran ran = test::run(options(",size=12"), 1, output_.path());
  EXPECT_GT(ran.result.test.metrics["accuracy"], 0.9);
  ASSERT_TRUE(ran.result.test.report.confusion);
  EXPECT_EQ(ran.result.test.report.confusion->total(), 12);
  EXPECT_EQ(ran.result.test.report.confusion->name(0), "blue");
  EXPECT_EQ(ran.result.test.report.confusion->name(2), "red");
}

// Its test samples are a part of the files that it trains on.
TEST_F(ImageFolderRun, IsEvaluatedWithoutAnAlarm) {
  train::TrainOptions one = options(",size=12");
  one.epochs = 1;
  test::run(one, 1, output_.path());
  for (const char* split : {"test", "train", "validation"}) {
    testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
      const auto asked =
          train::ask_classifier({.run = output_.path(), .split = split}, {.cores = 2}, group);
      EXPECT_THAT(asked.notes, ::testing::IsEmpty()) << split;
    });
  }
}

// What a file's stand-in is taken for is nothing to say of the file.
TEST_F(ImageFolderRun, IsAskedAboutNoStandInsAndCallsSamplesByTheirFiles) {
  train::TrainOptions one = options(",size=12,bad_files=substitute");
  one.epochs = 1;
  test::run(one, 1, output_.path());
  const auto names = [&](const std::string& data, std::vector<std::string>& notes) {
    std::vector<std::string> files;
    testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
      const auto asked =
          train::ask_classifier({.run = output_.path(), .data = data}, {.cores = 2}, group);
      notes = asked.notes;
      for (int64_t i = 0; i < asked.samples->size(); ++i) files.push_back(asked.file_of(i));
    });
    return files;
  };
  std::vector<std::string> notes;
  const std::vector<std::string> all = names("", notes);
  ASSERT_EQ(all.size(), 12U) << "a fifth of 60";
  EXPECT_THAT(notes, ::testing::IsEmpty());
  fs::resize_file(images_.path() / all[3], 200);
  std::vector<std::string> left = all;
  left.erase(left.begin() + 3);
  EXPECT_EQ(names("", notes), left);
  EXPECT_THAT(notes, Contains(HasSubstr("1 of 12 files of ")));
  EXPECT_THAT(notes, Contains(HasSubstr(all[3])));
  fs::rename(images_.path(), images_.path().string() + ".moved");  // other data: all of it
  EXPECT_EQ(
      names("folder:" + images_.path().string() + ".moved,size=12,bad_files=skip", notes).size(),
      59U);
  fs::rename(images_.path().string() + ".moved", images_.path());
}

TEST_F(ImageFolderRun, OfOtherClassesIsRefusedByTheirNames) {
  train::TrainOptions one = options(",size=12");
  one.epochs = 1;
  test::run(one, 1, output_.path());
  fs::rename(images_.path() / "blue", images_.path() / "violet");  // the others move up
  testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
    EXPECT_THAT(test::refusal_of(
                    [&] { train::ask_classifier({.run = output_.path()}, {.cores = 2}, group); }),
                HasSubstr("by their names: blue, green, red (got green, red, violet)"));
  });
}

TEST_F(ImageFolderRun, AStepOfTheChainMayMakeTheSize) {
  train::TrainOptions chained = options("");
  chained.train_transform = "random_horizontal_flip|fit_images:height=12,width=10";
  const train::TrainPlan resolved = plan(chained);
  EXPECT_EQ(resolved.model_shape.height, 12);
  EXPECT_EQ(resolved.model_shape.width, 10);
  EXPECT_THAT(resolved.remarks,
              Contains(HasSubstr("resized from 3 x any size to the 3 x 12 x 10")));
  EXPECT_THAT(train::explain(resolved),
              HasSubstr("3 x any size, seen by the model as 3 x 12 x 10"));
  const test::Ran ran = test::run(chained, 1, output_.path());
  EXPECT_GT(ran.result.test.metrics["accuracy"], 0.9);
}

TEST_F(ImageFolderRun, ThatEvaluationSqueezesImagesIsSaidWhateverLeavesThemOfUnlikeSizes) {
  train::TrainOptions chained = options("");
  chained.train_transform = "random_resized_crop:size=16|random_horizontal_flip";
  for (const char* chain : {"", "resize:size=18"}) {
    chained.eval_transform = chain;
    EXPECT_THAT(plan(chained).remarks,
                Contains(HasSubstr("validation and test images are resized from 3 x any size to "
                                   "the 3 x 16 x 16 that --train-transform leaves")))
        << chain;
  }
  train::TrainOptions enlarged = chained;
  enlarged.model = "lenet";  // takes no less than 16
  enlarged.train_transform = "random_resized_crop:size=12";
  EXPECT_THAT(plan(enlarged).remarks,
              Contains(HasSubstr("from 3 x any size to the 3 x 16 x 16 that the model takes")));
  chained.eval_transform = "resize:size=18|center_crop:size=16";
  EXPECT_THAT(plan(chained).remarks, Each(Not(HasSubstr("are resized from"))));
}

TEST_F(ImageFolderRun, ImagesOfUnlikeSizesAreRefusedWhereNothingMakesOneOfThem) {
  const std::string plain = test::refusal_of([&] { plan(options("")); });
  EXPECT_THAT(plain, HasSubstr("a model sees images of one size, and a folder's may differ"));
  EXPECT_THAT(plain, HasSubstr("folder:PATH,size=224"));
  train::TrainOptions chained = options("");
  chained.train_transform = "random_horizontal_flip";
  EXPECT_THAT(test::refusal_of([&] { plan(chained); }), HasSubstr("behind --train-transform, too"));
}

TEST_F(ImageFolderRun, ThePlanSaysWhichFilesAreSkipped) {
  fs::resize_file(images_.path() / "green/3.jpg", 200);
  EXPECT_THAT(plan(options(",size=12,bad_files=skip")).remarks,
              Contains(HasSubstr("1 of 60 files")).Times(1));
  EXPECT_THAT(plan(options(",size=12,bad_files=substitute")).remarks,
              Each(Not(HasSubstr("files"))));
}

}  // namespace
}  // namespace muster
