// `muster data info` and `muster data preview`, as a user runs them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

class DataInfo : public ::testing::Test {
 protected:
  void put(const fs::path& to, const std::string& input) {
    fs::create_directories((folder_.path() / to).parent_path());
    fs::copy_file(test::source_path("tests/golden/images/input/" + input), folder_.path() / to);
  }
  std::string spec() const { return "folder:" + folder_.path().string(); }

  test::Folder folder_;
};

TEST_F(DataInfo, ShowsClassesSizesBadFilesAndBalance) {
  put("cat/0.jpg", "colour_420.jpg");
  put("cat/1.jpg", "grey.jpg");
  put("dog/0.png", "colour8.png");
  put("dog/1.jpg", "colour_444.jpg");
  fs::resize_file(folder_.path() / "dog/1.jpg", 400);
  Launched info({"data", "info", spec()});
  EXPECT_EQ(info.wait().code, 0);
  EXPECT_THAT(info.out(), HasSubstr("all: 4 files in 2 classes"));
  EXPECT_THAT(info.out(), HasSubstr("| cat "));
  EXPECT_THAT(info.out(), HasSubstr("images   2 JPEG, 1 PNG, 1 grey"));
  EXPECT_THAT(info.out(), HasSubstr("width    13 to 37, median 37"));
  EXPECT_THAT(info.out(), HasSubstr("largest class has 2.0 times the smallest"));
  EXPECT_THAT(info.out(), HasSubstr("bad      1 file"));
  EXPECT_THAT(
      info.out(),
      HasSubstr("dog/1.jpg: it goes on to the end of its image (got cut short after 400 bytes)"));
  EXPECT_THAT(info.out(), Not(HasSubstr("damaged  ")));
}

TEST_F(DataInfo, TakesAPathWithACommaBesideItsName) {
  put("pets, old/cat/0.jpg", "colour_420.jpg");
  put("pets, old/dog/0.png", "colour8.png");
  Launched info({"data", "info", "folder", "--data-dir", folder_.path() / "pets, old"});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("all: 2 files in 2 classes"));
}

// Nobody writes into it: reading would never end.
TEST_F(DataInfo, APipeIsABadFile) {
  put("cat/0.jpg", "colour_420.jpg");
  ASSERT_EQ(::mkfifo((folder_.path() / "cat/1.jpg").c_str(), 0600), 0);
  Launched info({"data", "info", spec()});
  EXPECT_EQ(info.wait().code, 0);
  EXPECT_THAT(info.out(), HasSubstr("cat/1.jpg: it is a file (got a pipe, a socket or a device)"));
}

TEST_F(DataInfo, ShowsEachSplitAsJson) {
  put("train/cat/0.jpg", "colour_420.jpg");
  put("train/dog/0.png", "colour8.png");
  put("val/dog/0.png", "colour8.png");
  Launched info({"data", "info", spec(), "--json", "--threads", "2"});
  EXPECT_EQ(info.wait().code, 0);
  const Json json = parse_json(info.out(), "stdout");
  ASSERT_EQ(json.at("splits").size(), 2U);
  EXPECT_EQ(json["splits"][0]["split"], "train");
  EXPECT_EQ(json["splits"][0]["classes"][1]["name"], "dog");
  EXPECT_EQ(json["splits"][0]["height"]["greatest"], 29);
  EXPECT_EQ(json["splits"][1]["files"], 1);
  EXPECT_EQ(json["splits"][1]["folder"], (folder_.path() / "val").string());
  EXPECT_EQ(json["splits"][1]["bad"], Json::array());
}

TEST_F(DataInfo, RefusesWhatIsNoFolderOfImages) {
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"data"}, "it is not said what to do"},
      {{"data", "inform", spec()}, "no action \"inform\""},
      {{"data", "info", "mnist"}, "folder:PATH"},
      {{"data", "info", spec()}, "no folder in it"},
      {{"data", "info", "folder:/nowhere"}, "there is no such folder"},
      {{"data", "info", spec(), "--threads", "-1"}, "0 or more"}};
  for (const auto& [words, text] : refused) {
    Launched info(words);
    EXPECT_EQ(info.wait().code, 2) << text;
    EXPECT_THAT(info.err(), HasSubstr(text));
    EXPECT_EQ(info.out(), "");
  }
}

class DataPreview : public DataInfo {
 protected:
  void SetUp() override {
    for (const char* split : {"train", "test"}) {
      put(fs::path(split) / "cat/0.jpg", "colour_420.jpg");
      put(fs::path(split) / "dog/0.png", "colour8.png");
    }
  }
  fs::path sheet() const { return folder_.path() / "sheet.png"; }
};

TEST_F(DataPreview, DrawsTheSameSheetForTheSameSeed) {
  const std::string chain = "one_of(random_rotation:degrees=30|random_invert)|pad:padding=2,p=0.5";
  const auto drawn = [&](const std::string& seed) {
    Launched preview({"data",
                      "preview",
                      "--data",
                      spec(),
                      "--transform",
                      chain,
                      "--seed",
                      seed,
                      "--count",
                      "2",
                      "--draws",
                      "3",
                      "-o",
                      sheet()});
    EXPECT_EQ(preview.wait().code, 0) << preview.err();
    EXPECT_EQ(preview.out(), "");
    EXPECT_THAT(preview.err(), HasSubstr("sheet.png: 2 samples, 3 epochs each"));
    return read_file(sheet());
  };
  const std::string png = drawn("5");
  EXPECT_EQ(png.substr(0, 4), "\x89PNG");
  EXPECT_EQ(png, drawn("5"));
  EXPECT_NE(png, drawn("6"));
  const auto files =
      std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  EXPECT_EQ(files, 3) << "two splits and the sheet";
}

TEST_F(DataPreview, HasHelpWithoutLibTorchAndRefusesWithoutAFile) {
  Launched help({"data", "preview", "--help"});
  EXPECT_EQ(help.wait().code, 0);
  EXPECT_THAT(help.out(), HasSubstr("muster data preview DATA --transform CHAIN"));
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{}, "muster data preview without data"},
      {{"--data", spec(), "--transform", "one_of(grayscale"}, "each ( has its )"},
      {{"--data", spec(), "--transform", "grayscal"}, "grayscale"},
      {{"--data", spec(), "--transform", "one_of(grayscale|random_invert)"}, "one form"},
      {{"--data", spec(), "--count", "0"}, "count of a preview: it is in 1 … 200 (got 0)"},
      {{"--data", spec(), "--draws", "51"}, "draws of a preview: it is in 0 … 50 (got 51)"},
      {{"--data", spec(), "--seed", "-1"}, "--seed: 0 or more (got -1)"},
      {{"--data", spec(), "--split", "val"}, "--split: it is train or test (got val)"},
      {{"--data", spec(), "-o", "sheet.jpg"}, "its name ends in .png (got sheet.jpg)"},
      {{"--data", "folder:/nowhere"}, "there is no such folder"}};
  for (const auto& [words, text] : refused) {
    std::vector<std::string> all{"data", "preview", "-o", sheet()};
    all.insert(all.end(), words.begin(), words.end());
    if (!words.empty() && words[words.size() - 2] == "-o")
      all.erase(all.begin() + 2, all.begin() + 4);
    Launched preview(all);
    EXPECT_EQ(preview.wait().code, 2) << text << '\n' << preview.err();
    EXPECT_THAT(preview.err(), HasSubstr(text));
    EXPECT_FALSE(fs::exists(sheet()));
  }
}

TEST_F(DataPreview, IsAnEnvironmentErrorWhereItCannotBeWritten) {
  Launched preview({"data", "preview", spec(), "-o", folder_.path() / "none/sheet.png"});
  EXPECT_EQ(preview.wait().code, 1);
  EXPECT_THAT(preview.err(), HasSubstr("none/sheet.png"));
}

}  // namespace
}  // namespace muster::cli
