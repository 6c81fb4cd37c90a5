// Which folder is which split, and what is refused. Images are tested in tests/data/sets.
#include "tests/support/folder.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include "muster/data/dataset.h"

#include "tests/support/error_of.h"
#include "tests/support/paths.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FolderEntry : public ::testing::Test {
 protected:
  void put(const std::string& folder, int count) {
    fs::create_directories(root() / folder);
    for (int i = 0; i < count; ++i)
      fs::copy_file(test::source_path("tests/golden/images/input/colour_420.jpg"),
                    root() / folder / (std::to_string(i) + ".jpg"));
  }
  std::shared_ptr<const Dataset> open(Split split, const std::string& params = "size=8") {
    return datasets().at("folder").open(
        {.data_dir = root(), .split = split, .params = parse_param_values(params)});
  }
  std::string refusal(const std::string& params) {
    return test::refusal_of([&] { open(Split::kTrain, params); });
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

TEST_F(FolderEntry, TrainAndTestAreFoldersWhereTheyAreThere) {
  put("train/cat", 3);
  put("train/dog", 2);
  put("val/dog", 4);
  EXPECT_EQ(open(Split::kTrain)->size(), 5);
  const auto test = open(Split::kTest);
  EXPECT_EQ(test->size(), 4);
  EXPECT_THAT(test->spec().class_names, ElementsAre("cat", "dog"));
  EXPECT_TRUE(test->targets().equal(torch::ones({4}, torch::kLong)));
  put("test/cat", 1);
  EXPECT_EQ(open(Split::kTest)->size(), 1) << "test comes before val";
  put("test/eel", 1);
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTest); }), HasSubstr("the classes are cat, dog"));
}

TEST_F(FolderEntry, ElseAPartOfEachClassIsHeldOut) {
  put("cat", 10);
  put("dog", 5);
  const auto train = open(Split::kTrain), test = open(Split::kTest);
  EXPECT_EQ(train->size(), 12);
  EXPECT_TRUE(test->targets().equal(torch::tensor({0, 0, 1})));
  EXPECT_EQ(open(Split::kTest, "size=8,test_fraction=0.4")->size(), 6);
  EXPECT_EQ(train->before_normalising()->size(), 12);
  EXPECT_NE(open(Split::kTest, "size=8,test_fraction=0.4,split_seed=1")->fingerprint(),
            open(Split::kTest, "size=8,test_fraction=0.4")->fingerprint());
}

// A run keeps the path that it began with; where the folder lies now is said beside it.
TEST_F(FolderEntry, TheFolderThatIsNamedBesideAPathTakesItsPlace) {
  put("cat", 5);
  put("dog", 5);
  EXPECT_EQ(open(Split::kTrain, "path=/elsewhere,size=8")->size(), 8);
}

TEST_F(FolderEntry, AnotherFolderIsAskedAboutAsAWholeByTheClassesOfTheRun) {
  put("cat", 10);
  put("dog", 5);
  const std::string learned = open(Split::kTrain)->learned();
  for (const char* name : {"cat", "dog"}) fs::remove_all(root() / name);
  const auto other = [&] {
    return datasets().at("folder").open({.data_dir = root(),
                                         .split = Split::kTest,
                                         .params = parse_param_values("size=8"),
                                         .learned = learned,
                                         .is_other = true});
  };
  put("dog", 4);  // and no cat
  EXPECT_EQ(other()->size(), 4);
  EXPECT_THAT(other()->spec().class_names, ElementsAre("cat", "dog"));
  EXPECT_TRUE(other()->targets().equal(torch::ones({4}, torch::kLong)));
  put("eel", 1);
  EXPECT_THAT(test::refusal_of(other), HasSubstr("the classes are cat, dog"));
  for (const char* name : {"dog", "eel"}) fs::remove_all(root() / name);
  put("", 3);  // images side by side, of which nobody knows the classes
  EXPECT_EQ(other()->size(), 3);
  EXPECT_THAT(other()->spec().class_names, ElementsAre("cat", "dog"));
  EXPECT_FALSE(other()->targets().defined());
  const std::vector<int64_t> one{2};
  EXPECT_EQ(other()->get(one).find("target"), nullptr);
  EXPECT_THAT(refusal("size=8"), HasSubstr("it has a folder for each class"))
      << "nothing can be learned of them";
}

TEST_F(FolderEntry, AFractionThatHoldsNothingOutIsRefused) {
  put("cat", 3);
  put("dog", 3);
  EXPECT_THAT(refusal("size=8,test_fraction=0.001"),
              HasSubstr("it holds out a sample at least (got 0.001 of 6 samples)"));
}

TEST_F(FolderEntry, AClassOfWhichNoFileIsGoodIsRefusedNotForgotten) {
  put("cat", 3);
  put("dog", 2);
  for (const char* file : {"dog/0.jpg", "dog/1.jpg"}) fs::resize_file(root() / file, 100);
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTrain, "size=8,bad_files=skip"); },
                               ErrorKind::kEnvironment),
              HasSubstr("each class has a file that can be decoded (got none in dog)"));
}

TEST_F(FolderEntry, AClassThatATestFolderLacksIsNoneThatWasSkipped) {
  put("train/cat", 3);
  put("train/dog", 3);
  put("test/cat", 3);
  fs::resize_file(root() / "test/cat/0.jpg", 100);
  EXPECT_EQ(open(Split::kTest, "size=8,bad_files=skip")->size(), 2);
}

// Opening one would wait for who writes.
TEST_F(FolderEntry, APipeAmongImagesIsABadFile) {
  put("cat", 3);
  put("dog", 3);
  ASSERT_EQ(::mkfifo((root() / "dog/pipe.png").c_str(), 0600), 0);
  EXPECT_EQ(open(Split::kTrain, "size=8,bad_files=skip,test_fraction=0.4")->size(), 4);
}

TEST_F(FolderEntry, TrainMayBeAClassAmongOthers) {
  put("bus", 5);
  put("train", 5);
  EXPECT_THAT(open(Split::kTrain)->spec().class_names, ElementsAre("bus", "train"));
}

TEST_F(FolderEntry, ATrainFolderAloneIsSplit) {
  put("train/cat", 5);
  put("train/dog", 5);
  EXPECT_EQ(open(Split::kTrain)->size(), 8);
  EXPECT_EQ(open(Split::kTest)->size(), 2);
}

TEST_F(FolderEntry, PixelsAreNormalisedUnlessAskedNotTo) {
  put("cat", 5);
  put("dog", 5);
  const std::vector<int64_t> first{0};
  const at::Tensor normalised = open(Split::kTrain)->get(first)["data"];
  const at::Tensor plain = open(Split::kTrain, "size=8,normalize=none")->get(first)["data"];
  EXPECT_LT(normalised.min().item<float>(), 0);
  EXPECT_GE(plain.min().item<float>(), 0);
  EXPECT_LE(plain.max().item<float>(), 1);
}

TEST_F(FolderEntry, WhatMakesNoSenseIsRefused) {
  put("cat", 2);
  EXPECT_THAT(refusal("bad_files=ignore"), HasSubstr("raise, skip or substitute (got \"ignore\")"));
  EXPECT_THAT(refusal("normalize=mnist"), HasSubstr("imagenet or none"));
  EXPECT_THAT(refusal("test_fraction=1"), HasSubstr("above 0, below 1 (got 1)"));
  EXPECT_THAT(test::refusal_of([] {
                datasets().at("folder").open({.params = {{"path", "~/pets"}}});
              }),
              HasSubstr("folder:$HOME/pets"));
  EXPECT_THAT(test::refusal_of([] { datasets().at("folder").open({}); }),
              HasSubstr("folder:PATH, or --data-dir PATH"));
}

}  // namespace
}  // namespace muster::data
