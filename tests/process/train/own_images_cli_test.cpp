// A user's own images: files that are bad, gone or moved, and other folders that are asked about.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::joined;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

constexpr std::chrono::seconds kImagesLimit{90};

/// Two classes, four images of each to train on and three to test.
class OwnImages : public ::testing::Test {
 protected:
  OwnImages() {
    for (const char* name : {"cat", "dog"}) {
      for (int i = 0; i < 4; ++i) put(concat("pets/train/", name, '/', i, ".jpg"));
      for (int i = 0; i < 3; ++i) put(concat("pets/test/", name, '/', i, ".jpg"));
    }
  }
  void put(const std::string& to) const {
    const std::string input =
        to.find("cat") != std::string::npos ? "colour_420.jpg" : "colour_422.jpg";
    fs::create_directories(fs::path(at(to)).parent_path());
    fs::copy_file(test::source_path("tests/golden/images/input/" + input), at(to));
  }
  std::string at(const std::string& name) const { return folder_.path() / name; }
  Words train(const std::string& data, const Words& more = {}) const {
    return joined(test::train_words(data, "4", {"--workers", "0", "--validation-samples", "0"}),
                  joined({"--epochs", "1", "--output", at("run")}, more));
  }

  test::Folder folder_;
};

TEST_F(OwnImages, ThatOthersStandInForFilesIsSaidAndNoStandInIsPredicted) {
  fs::resize_file(at("pets/train/cat/1.jpg"), 200);
  fs::resize_file(at("pets/test/dog/0.jpg"), 200);
  Launched trained(train("folder:" + at("pets") + ",size=8,bad_files=substitute"));
  ASSERT_EQ(trained.wait(kImagesLimit).code, 0) << trained.err();
  EXPECT_THAT(trained.err(), HasSubstr("others stood in for them: cat/1.jpg"));
  EXPECT_THAT(trained.err(), HasSubstr("others stood in for them: dog/0.jpg"));
  Launched predicted({"predict", at("run"), "--output", "-"});
  ASSERT_EQ(predicted.wait(kImagesLimit).code, 0) << predicted.err();
  EXPECT_THAT(predicted.out(),
              AllOf(HasSubstr("index,class,name,probability,target,file\n"),
                    HasSubstr(",cat/2.jpg\n"),
                    HasSubstr(",dog/1.jpg\n"),
                    Not(HasSubstr("dog/0.jpg"))));
  EXPECT_THAT(predicted.err(), HasSubstr("1 of 6 files of "));
  Launched evaluated({"evaluate", at("run")});
  ASSERT_EQ(evaluated.wait(kImagesLimit).code, 0) << evaluated.err();
  EXPECT_THAT(evaluated.err(), AllOf(HasSubstr("dog/0.jpg"), HasSubstr("on the 5 test samples")));
}

TEST_F(OwnImages, AllOfAnotherFolderIsAskedAbout) {
  Launched trained(train("folder:" + at("pets") + ",size=8"));
  ASSERT_EQ(trained.wait(kImagesLimit).code, 0) << trained.err();
  for (int i = 0; i < 5; ++i) put(concat("fresh/dog/", i, ".jpg"));
  Launched evaluated({"evaluate", at("run"), "--data", "folder:" + at("fresh") + ",size=8"});
  ASSERT_EQ(evaluated.wait(kImagesLimit).code, 0) << evaluated.err();
  EXPECT_THAT(evaluated.err(), HasSubstr("on the 5 test samples"));
  const std::string flat = "folder:" + at("fresh/dog") + ",size=8";
  Launched predicted({"predict", at("run"), "--data", flat, "--output", "-"});
  ASSERT_EQ(predicted.wait(kImagesLimit).code, 0) << predicted.err();
  EXPECT_THAT(predicted.out(), HasSubstr("index,class,name,probability,file\n0,"));
  EXPECT_THAT(predicted.out(), HasSubstr(",4.jpg\n"));
  Launched refused({"evaluate", at("run"), "--data", flat});
  EXPECT_EQ(refused.wait(kImagesLimit).code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("the samples have classes to compare them with"));
}

TEST_F(OwnImages, ThatWereMovedAreOtherDataUnlessTheyAreNamedByTheirFolder) {
  Launched trained(joined(
      test::train_words(
          "folder:" + at("pets") + ",size=8", "4", {"--workers", "0", "--validation-samples", "2"}),
      {"--epochs", "1", "--output", at("run")}));
  ASSERT_EQ(trained.wait(kImagesLimit).code, 0) << trained.err();
  fs::rename(at("pets"), at("moved"));
  const std::string moved = "folder:" + at("moved") + ",size=8";
  Launched refused({"evaluate", at("run"), "--data", moved, "--split", "validation"});
  EXPECT_EQ(refused.wait(kImagesLimit).code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("say where it lies now: --data-dir PATH"));
  Launched all({"evaluate", at("run"), "--data", moved, "--split", "train"});
  ASSERT_EQ(all.wait(kImagesLimit).code, 0) << all.err();
  EXPECT_THAT(all.err(), HasSubstr("--data in another place is other data"));
  Launched own({"evaluate", at("run"), "--data-dir", at("moved"), "--split", "validation"});
  ASSERT_EQ(own.wait(kImagesLimit).code, 0) << own.err();
  EXPECT_THAT(own.err(),
              AllOf(HasSubstr("on the 2 validation samples"), Not(HasSubstr("other data"))));
}

TEST_F(OwnImages, AFileThatIsNotThereIsNoWrongUse) {
  fs::create_symlink(at("nowhere"), at("pets/train/cat/9.jpg"));
  Launched trained(train("folder:" + at("pets") + ",size=8"));
  EXPECT_EQ(trained.wait(kImagesLimit).code, 1) << trained.err();
  EXPECT_THAT(trained.err(), HasSubstr("no such file: " + at("pets/train/cat/9.jpg")));
}

TEST_F(OwnImages, ARunOfShardsGoesOnWhereTheyAndTheListOfClassesLieNow) {
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"cat", "dog"}) {
      for (int i = 0; i < (split == std::string("train") ? 4 : 3); ++i)
        write_file_atomic(at(concat("pets/", split, '/', name, '/', i, ".cls")),
                          name == std::string("cat") ? "0" : "1");
    }
    fs::create_directories(at("old"));
    const std::string pack = concat(
        "tar --sort=name -cf '", at("old/"), split, ".tar' -C '", at("pets/"), split, "' cat dog");
    ASSERT_EQ(std::system(pack.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  }
  write_file_atomic(at("old/k.txt"), "cat\ndog\n");
  const auto data = [&](const std::string& folder) {
    return concat("tar:",
                  at(folder + "/train.tar"),
                  ",size=8,test=",
                  at(folder + "/test.tar"),
                  ",classes=",
                  at(folder + "/k.txt"));
  };
  Launched trained(train(data("old")));
  ASSERT_EQ(trained.wait(kImagesLimit).code, 0) << trained.err();
  fs::rename(at("old"), at("new"));
  const auto asked = [&](const Words& words) {
    Launched program(words);
    EXPECT_EQ(program.wait(kImagesLimit).code, 0) << program.err();
    return program.err();
  };
  EXPECT_THAT(asked({"evaluate", at("run"), "--data-dir", at("new/train.tar")}),
              AllOf(HasSubstr("on the 6 test samples"), Not(HasSubstr("other content"))));
  EXPECT_THAT(asked({"evaluate", at("run"), "--data", data("new")}),
              HasSubstr("on the 6 test samples"));
  const Words resume{"train", "--resume", at("run"), "--epochs"};
  EXPECT_THAT(asked(joined(resume, {"2", "--data-dir", at("new/train.tar")})),
              Not(HasSubstr("other content")));
  EXPECT_THAT(asked(joined(resume, {"3", "--data", data("new")})), Not(HasSubstr("other content")));
}

}  // namespace
}  // namespace muster
