// `muster data preview`, as a user runs it.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_process::Launched;

class DataPreview : public ::testing::Test {
 protected:
  DataPreview() {
    for (const char* split : {"train", "test"}) {
      put(fs::path(split) / "cat/0.jpg", "colour_420.jpg");
      put(fs::path(split) / "dog/0.png", "colour8.png");
    }
  }
  void put(const fs::path& to, const std::string& input) const {
    fs::create_directories((folder_.path() / to).parent_path());
    fs::copy_file(test::source_path("tests/golden/images/input/" + input), folder_.path() / to);
  }
  std::string spec() const { return "folder:" + folder_.path().string(); }
  fs::path sheet() const { return folder_.path() / "sheet.png"; }

  test::Folder folder_;
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
      {{spec(), "--data", spec()}, "--data: it is given once, with the flag or without"},
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

TEST_F(DataPreview, OfNoTransformHasTheImagesAlone) {
  for (const bool is_said : {false, true}) {
    std::vector<std::string> words{"data", "preview", spec(), "-o", sheet(), "--count", "2"};
    if (is_said) words.insert(words.end(), {"--transform", "none"});
    Launched preview(words);
    EXPECT_EQ(preview.wait().code, 0) << preview.err();
    EXPECT_THAT(preview.err(), HasSubstr("sheet.png: 2 samples, 0 epochs each"));
  }
}

TEST_F(DataPreview, IsAnEnvironmentErrorWhereItCannotBeWritten) {
  Launched preview({"data", "preview", spec(), "-o", folder_.path() / "none/sheet.png"});
  EXPECT_EQ(preview.wait().code, 1);
  EXPECT_THAT(preview.err(), HasSubstr("none/sheet.png"));
}

}  // namespace
}  // namespace muster
