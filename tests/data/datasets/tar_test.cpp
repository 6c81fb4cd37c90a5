// Tar shards as a dataset: the samples of a folder with the same images, splits, classes, bad files.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/data/dataset.h"
#include "muster/data/loader/loader.h"
#include "muster/data/samplers/random.h"
#include "muster/data/transform/transformed.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"
#include "tests/support/tar_files.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using test::TarFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kImages[] = {
    "colour_420.jpg", "palette8.png", "grey.jpg", "cmyk.jpg", "colour_422.jpg"};

class TarEntry : public ::testing::Test {
 protected:
  static fs::path input(const std::string& file) {
    return test::source_path("tests/golden/images/input/" + file);
  }
  /// `count` samples in a shard, classes 0, 1, 0, 1, … or by names.
  void put(const std::string& shard,
           int count,
           const std::vector<std::string>& classes = {"0", "1"}) {
    TarFile file;
    for (int i = 0; i < count; ++i)
      file.sample(
          concat("s/", i), input(kImages[i % 5]), classes[static_cast<size_t>(i) % classes.size()]);
    file.write(root() / shard);
  }
  std::shared_ptr<const Dataset> open(Split split,
                                      const std::string& params = "size=8",
                                      const std::string& pattern = "*.tar") {
    return datasets().at("tar").open(
        {.data_dir = root() / pattern, .split = split, .params = parse_param_values(params)});
  }
  std::string refusal(const std::string& params, ErrorKind kind = ErrorKind::kUsage) {
    return test::refusal_of([&] { open(Split::kTrain, params); }, kind);
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

std::vector<int64_t> all_of_tar(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  return indices;
}

TEST_F(TarEntry, HasThePixelsOfAFolderWithTheSameImages) {
  put("train-0.tar", 3, {"cat"});
  put("train-1.tar", 5, {"dog"});
  put("val-0.tar", 2, {"dog"});
  for (const auto& [name, count] : {std::pair{"train/cat", 3}, {"train/dog", 5}, {"val/dog", 2}}) {
    fs::create_directories(root() / name);
    for (int i = 0; i < count; ++i)
      fs::copy_file(input(kImages[i]),
                    root() / name / concat(i, input(kImages[i]).extension().string()));
  }
  for (const char* params : {"size=9", "size=9,normalize=none"}) {
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const auto tar = open(
          split, concat(params, ",test=", (root() / "val-*.tar").string()), "train-{0..1}.tar");
      const auto folder = datasets().at("folder").open(
          {.data_dir = root(), .split = split, .params = parse_param_values(params)});
      ASSERT_EQ(tar->size(), folder->size());
      EXPECT_THAT(tar->spec().class_names, ElementsAre("cat", "dog"));
      EXPECT_TRUE(tar->targets().equal(folder->targets()));
      const Batch one = tar->get(all_of_tar(*tar)), other = folder->get(all_of_tar(*folder));
      EXPECT_TRUE(one["data"].equal(other["data"]));
      EXPECT_TRUE(one["target"].equal(other["target"]));
    }
  }
  const auto as_they_are = open(Split::kTrain, "", "train-*.tar");
  EXPECT_FALSE(as_they_are->spec().has_size());
  const auto chained = transformed(as_they_are, "random_resized_crop:size=4");
  EXPECT_EQ(chained->get(std::vector<int64_t>{0, 1})["data"].sizes(),
            (at::IntArrayRef{2, 3, 4, 4}));
}

TEST_F(TarEntry, BatchesAreTheSameForAnyNumberOfWorkers) {
  put("a.tar", 20);
  const auto images = open(Split::kTrain);
  std::vector<at::Tensor> data;
  for (const int64_t workers : {0, 3}) {
    Loader loader(images,
                  {.batch_size = 4, .workers = workers, .seed = 5},
                  std::make_unique<RandomSampler>(images->size(), RandomSamplerOptions{.seed = 3}));
    std::vector<at::Tensor> batches;
    for (const Batch& batch : loader.epoch(1)) batches.push_back(batch["data"]);
    data.push_back(torch::cat(batches));
  }
  EXPECT_TRUE(data[0].equal(data[1]));
}

TEST_F(TarEntry, APartOfEachClassIsHeldOutWhereThereAreNoTestShards) {
  put("a.tar", 12);
  put("b.tar", 8);
  const auto train = open(Split::kTrain), test = open(Split::kTest);
  EXPECT_EQ(train->size(), 16);
  EXPECT_TRUE(test->targets().bincount().equal(torch::tensor({2, 2})));
  EXPECT_TRUE(open(Split::kTest, "size=8,test_fraction=0.5")
                  ->targets()
                  .bincount()
                  .equal(torch::tensor({5, 5})));
  EXPECT_NE(open(Split::kTest, "size=8,split_seed=1")->fingerprint(), test->fingerprint());
  EXPECT_THAT(refusal("test_fraction=0.001"), HasSubstr("it holds out a sample at least"));
}

TEST_F(TarEntry, AFolderOfShardsIsDividedByTheirNames) {
  put("train-0.tar", 6, {"cat", "dog"});
  put("val-0.tar", 2, {"dog"});
  EXPECT_EQ(open(Split::kTrain, "size=8", "")->size(), 6);
  const auto test = open(Split::kTest, "size=8", "");
  EXPECT_EQ(test->size(), 2);
  EXPECT_THAT(test->spec().class_names, ElementsAre("cat", "dog"));
  EXPECT_TRUE(test->targets().equal(torch::ones({2}, torch::kLong)));
  put("val-0.tar", 2, {"eel"});
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTest, "size=8", ""); }, ErrorKind::kEnvironment),
              HasSubstr("its class \"eel\" is none of cat, dog"));
}

TEST_F(TarEntry, ClassesHaveNamesFromAFile) {
  put("a.tar", 10);
  EXPECT_EQ(open(Split::kTrain)->spec().classes, 2);
  EXPECT_TRUE(open(Split::kTrain)->spec().class_names.empty());
  std::ofstream(root() / "names.txt") << "cat\ndog\neel\n";
  const std::string params = concat("size=8,classes=", (root() / "names.txt").string());
  EXPECT_THAT(open(Split::kTrain, params)->spec().class_names, ElementsAre("cat", "dog", "eel"));
  EXPECT_EQ(open(Split::kTest, params)->spec().classes, 3);
  std::ofstream(root() / "names.txt") << "cat\n";
  EXPECT_THAT(
      refusal(params, ErrorKind::kEnvironment),
      AllOf(HasSubstr("member s/1.png at offset "), HasSubstr("its class \"1\" is none of cat")));
}

TEST_F(TarEntry, BadImagesAreRaisedSkippedOrSubstituted) {
  const std::string good = read_file(input("grey.jpg"));
  TarFile file;
  for (int i = 0; i < 10; ++i)
    file.add(concat(i, ".jpg"), i == 4 ? good.substr(0, good.size() / 2) : good)
        .add(concat(i, ".cls"), i % 2 == 0 ? "0" : "1");
  file.write(root() / "a.tar");
  TarFile().sample("t", input("grey.jpg"), "0").write(root() / "t" / "b.tar");
  const std::string test = concat(",test=", (root() / "t/b.tar").string());
  const auto raised = open(Split::kTrain, "size=8" + test);
  EXPECT_THAT(test::refusal_of([&] { raised->get(all_of_tar(*raised)); }, ErrorKind::kEnvironment),
              AllOf(HasSubstr("sample 4 of "),
                    HasSubstr("a.tar: member 4.jpg at offset "),
                    HasSubstr("cut short"),
                    HasSubstr("bad_files=skip or substitute")));
  const auto skipped = open(Split::kTrain, "size=8,bad_files=skip" + test);
  EXPECT_EQ(skipped->size(), 9);
  EXPECT_THAT(skipped->remarks(),
              ElementsAre(AllOf(HasSubstr("1 of 10 files"), HasSubstr("a.tar:4.jpg"))));
  const auto substituted = open(Split::kTrain, "size=8,bad_files=substitute" + test);
  EXPECT_EQ(substituted->get(all_of_tar(*substituted))["target"][4].item<int64_t>(), 1);
}

TEST_F(TarEntry, SamplesWithoutAClassAreSkippedWhenAskedTo) {
  TarFile file;
  for (int i = 0; i < 10; ++i) file.sample(concat(i), input("grey.jpg"), i % 2 == 0 ? "0" : "1");
  file.add("none.jpg", read_file(input("grey.jpg")));
  file.write(root() / "a.tar");
  EXPECT_THAT(refusal("size=8", ErrorKind::kEnvironment),
              AllOf(HasSubstr("a.tar: member none.jpg at offset "),
                    HasSubstr("its sample has no member that says its class"),
                    HasSubstr("bad_files=skip")));
  const auto skipped = open(Split::kTrain, "size=8,bad_files=skip");
  EXPECT_EQ(skipped->size(), 8);
  EXPECT_THAT(skipped->remarks(), ElementsAre(HasSubstr("1 of 11 samples in ")));
}

TEST_F(TarEntry, OtherShardsAreReadByWhatTheRunHasLearned) {
  put("a.tar", 10, {"cat", "dog"});
  const std::string learned = open(Split::kTrain)->learned();
  EXPECT_EQ(learned, R"({"classes":["cat","dog"]})");
  const auto other = [&](const std::string& shard) {
    return datasets().at("tar").open({.data_dir = root() / shard,
                                      .split = Split::kTest,
                                      .params = parse_param_values("size=8"),
                                      .learned = learned,
                                      .is_other = true});
  };
  put("b.tar", 3, {"dog"});
  EXPECT_EQ(other("b.tar")->size(), 3);
  EXPECT_TRUE(other("b.tar")->targets().equal(torch::ones({3}, torch::kLong)));
  TarFile().add("1.jpg", read_file(input("grey.jpg"))).write(root() / "c.tar");
  const auto unlabelled = other("c.tar");
  EXPECT_FALSE(unlabelled->targets().defined());
  EXPECT_EQ(unlabelled->get(std::vector<int64_t>{0}).find("target"), nullptr);
  EXPECT_EQ(unlabelled->spec().classes, 2);
}

TEST_F(TarEntry, TheFingerprintHangsOnNamesClassesAndBytes) {
  put("a.tar", 10);
  const uint32_t before = open(Split::kTrain)->fingerprint();
  EXPECT_EQ(open(Split::kTrain)->fingerprint(), before);
  put("a.tar", 10, {"1", "0"});
  EXPECT_NE(open(Split::kTrain)->fingerprint(), before);
}

TEST_F(TarEntry, RefusesParametersWithoutSense) {
  put("a.tar", 10);
  EXPECT_THAT(refusal("bad_files=keep"), HasSubstr("raise, skip or substitute (got \"keep\")"));
  EXPECT_THAT(refusal("normalize=yes"), HasSubstr("imagenet or none"));
  EXPECT_THAT(refusal("test_fraction=1"), HasSubstr("above 0, below 1"));
  EXPECT_THAT(refusal("size=-1"), HasSubstr("(got -1)"));
  EXPECT_THAT(refusal("label=png"), HasSubstr("says its class"));
  EXPECT_THAT(test::refusal_of([] { datasets().at("tar").open({}); }),
              HasSubstr("it is given shards"));
  EXPECT_THAT(test::refusal_of([] {
                datasets().at("tar").open({.params = {{"path", "~/a.tar"}}});
              }),
              HasSubstr("write tar:$HOME/a.tar"));
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTrain, "", "b-*.tar"); }),
              HasSubstr("a file fits the pattern"));
}

}  // namespace
}  // namespace muster::data
