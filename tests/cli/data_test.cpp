// `muster data info`, as a user runs it.
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "cli/dataset/split_data.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"
#include "tests/support/tar_files.h"

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

TEST_F(DataInfo, ShowsTarShardsWithSamplesThatCannotBeUsed) {
  const auto input = [](const char* file) {
    return test::source_path(std::string("tests/golden/images/input/") + file);
  };
  test::TarFile()
      .sample("cat/0", input("colour_420.jpg"), "cat")
      .sample("cat/1", input("grey.jpg"), "cat")
      .add("none.jpg", "")
      .add("readme.txt", "")
      .write(folder_.path() / "a-0.tar");
  test::TarFile()
      .sample("dog/0", input("colour8.png"), "dog")
      .add("dog/1.jpg", read_file(input("colour_444.jpg")).substr(0, 400))
      .add("dog/1.cls", "dog")
      .write(folder_.path() / "a-1.tar");
  const std::string shards = "tar:" + (folder_.path() / "a-{0..1}.tar").string();
  Launched info({"data", "info", shards});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("all: 4 samples in 2 classes of " + folder_.path().string()));
  EXPECT_THAT(info.out(), HasSubstr("| dog "));
  EXPECT_THAT(info.out(), HasSubstr("images   2 JPEG, 1 PNG, 1 grey"));
  EXPECT_THAT(info.out(), HasSubstr("bad      1 sample; bad_files=skip or substitute"));
  EXPECT_THAT(info.out(), HasSubstr("a-1.tar: member dog/1.jpg at offset "));
  EXPECT_THAT(info.out(), HasSubstr("aside    1 sample with neither an image nor a class"));
  EXPECT_THAT(info.out(), HasSubstr("unusable 1 sample; bad_files=skip trains without"));
  EXPECT_THAT(info.out(), HasSubstr("a-0.tar: member none.jpg at offset "));
  Launched as_json({"data", "info", shards, "--json"});
  EXPECT_EQ(as_json.wait().code, 0);
  const Json split = parse_json(as_json.out(), "stdout").at("splits").at(0);
  EXPECT_EQ(split.at("classes")[1].at("bad"), 1);
  EXPECT_EQ(split.at("bad").size(), 2U);
  EXPECT_TRUE(split.contains("shards"));
}

TEST_F(DataInfo, ShowsRowsOfNumbersWithTheirColumns) {
  const auto put_text = [&](const char* name, const char* text) {
    write_file_atomic(folder_.path() / name, text);
    return (folder_.path() / name).string();
  };
  const std::string rows = put_text(
      "a.csv", "long,kind,wide,colour\n1,a,4,red\n3,a,8,blue\n5,b,x,red\n2,,1,red\n2,b,0,red\n");
  const std::string spec = "csv:" + rows + ",target=kind,categorical=colour";
  Launched info({"data", "info", spec});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("all: 3 rows in 2 classes of " + rows));
  EXPECT_THAT(info.out(), HasSubstr("| a "));
  EXPECT_THAT(info.out(), HasSubstr("| long "));
  EXPECT_THAT(info.out(), HasSubstr("numbers  4 of each row go to the model"));
  EXPECT_THAT(info.out(), HasSubstr("balance  the largest class has 2.0 times the smallest"));
  EXPECT_THAT(info.out(), HasSubstr("bad      2 rows; bad_rows=skip trains without"));
  EXPECT_THAT(info.out(), HasSubstr("a.csv:4"));
  EXPECT_THAT(info.out(), HasSubstr("a.csv:5: it has no class"));
  const std::string other = put_text("b.csv", "long,kind,wide,colour\n7,b,1,red\n7,c,1,red\n");
  Launched as_json({"data", "info", spec + ",test=" + other, "--json"});
  EXPECT_EQ(as_json.wait().code, 0) << as_json.err();
  const Json splits = parse_json(as_json.out(), "stdout").at("splits");
  ASSERT_EQ(splits.size(), 2U);
  EXPECT_EQ(splits[0].at("split"), "train");
  EXPECT_EQ(splits[0].at("columns")[0].at("mean"), 2.0);
  EXPECT_EQ(splits[0].at("columns")[0].at("greatest"), 3.0);
  EXPECT_EQ(splits[0].at("columns")[2].at("categories"), Json::parse(R"(["blue", "red"])"));
  EXPECT_EQ(splits[1].at("rows"), 1);
  EXPECT_EQ(splits[1].at("classes")[0].at("rows"), 0);
  EXPECT_EQ(splits[1].at("bad").size(), 1U);
}

TEST_F(DataInfo, ShowsATargetThatIsMeasuredAsAColumn) {
  write_file_atomic(folder_.path() / "a.csv", "x,y\n1,0.5\n2,1.5\n3,oops\n4,4\n");
  const std::string rows = "csv:" + (folder_.path() / "a.csv").string();
  Launched info({"data", "info", rows + ",target=y,target_kind=number"});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("all: 3 rows of "));
  EXPECT_THAT(info.out(), HasSubstr("| target "));
  EXPECT_THAT(info.out(), HasSubstr("a.csv:4: its \"y\" is no number: \"oops\""));
  Launched as_json({"data", "info", rows + ",target=y,target_kind=number", "--json"});
  EXPECT_EQ(as_json.wait().code, 0) << as_json.err();
  const Json split = parse_json(as_json.out(), "stdout").at("splits").at(0);
  EXPECT_EQ(split.at("target").at("mean"), 2.0);
  EXPECT_EQ(split.at("target").at("greatest"), 4.0);
  EXPECT_TRUE(split.at("classes").empty());
}

TEST_F(DataInfo, SplitsAFolderOfClassFolders) {
  for (int i = 0; i < 10; ++i) put("pets/cat/" + std::to_string(i) + ".jpg", "grey.jpg");
  put("pets/dog/0.png", "colour8.png");
  const std::string data = "folder:" + (folder_.path() / "pets").string();
  const std::string out = (folder_.path() / "divided").string();
  Launched split({"data", "split", data, "-o", out});
  EXPECT_EQ(split.wait().code, 0) << split.err();
  EXPECT_THAT(split.out(), HasSubstr(out + ": 11 files in 2 classes, hard links"));
  EXPECT_THAT(split.out(), HasSubstr("| class   |   train |   val |   test |"));
  EXPECT_THAT(split.out(), HasSubstr("| cat     |       8 |     1 |      1 |"));
  const std::string made = "folder:" + out;
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"data", "split", data, "-o", out}, "nothing is overwritten"},
      {{"data", "split", made, "-o", out + "2"}, "it is not divided yet (got train and test)"},
      {{"data", "split", data}, "without -o FOLDER"},
      {{"data", "split", data, "-o", (folder_.path() / "pets/divided").string()}, "are apart"},
      {{"data", "split", data + ",szie=3", "-o", out + "2"}, "did you mean \"size\"?"},
      {{"data", "split", "mnist", "-o", out + "2"}, "it divides folder:PATH"},
      {{"data", "split", data, "-o", out + "2", "--ratio", "0.5"}, "two shares"},
      {{"data", "split", data, "-o", out + "2", "--ratio", "0.5,0.6"}, "which add up to 1"},
      {{"data", "split", data, "-o", out + "2", "--ratio", "0.5,half"}, "numbers with commas"},
      {{"data", "split", data, "-o", out + "2", "--shard-size", "1MiB"}, "tar:PATTERN"},
      {{"data", "split", data, "-o", out + "2", "--seed", "-1"}, "0 or more"}};
  for (const auto& [words, text] : refused) {
    Launched again(words);
    EXPECT_EQ(again.wait().code, 2) << text;
    EXPECT_THAT(again.err(), HasSubstr(text));
  }
  EXPECT_FALSE(fs::exists(out + "2"));
}

TEST_F(DataInfo, SplitsTarShards) {
  test::TarFile shard;
  for (int i = 0; i < 10; ++i)
    shard.sample("x/" + std::to_string(i),
                 test::source_path("tests/golden/images/input/grey.jpg"),
                 i < 8 ? "cat" : "dog");
  shard.add("README", "of whom?").write(folder_.path() / "in/all.tar");
  const std::string data = "tar:" + (folder_.path() / "in/all.tar").string();
  const std::string out = (folder_.path() / "divided").string();
  Launched split({"data", "split", data, "-o", out, "--ratio", "0.5,0.5"});
  EXPECT_EQ(split.wait().code, 0) << split.err();
  EXPECT_THAT(split.out(), HasSubstr(out + ": 10 samples in 2 classes, 2 shards"));
  EXPECT_THAT(split.out(), HasSubstr("| cat     |       4 |     4 |"));
  EXPECT_THAT(split.out(), HasSubstr("| dog     |       1 |     1 |"));
  EXPECT_THAT(split.err(), HasSubstr("1 file that is part of no sample is left out"));
  Launched info({"data", "info", "tar:" + out});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("train: 5 samples in 2 classes"));
  EXPECT_THAT(info.out(), HasSubstr("test: 5 samples in 2 classes"));
  const std::string folder = "tar:" + (folder_.path() / "in").string();
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"data", "split", data, "-o", out}, "nothing is overwritten"},
      {{"data", "split", "tar:" + out, "-o", out + "2"}, "they are not divided yet"},
      {{"data", "split", folder, "-o", (folder_.path() / "in/new").string()}, "are apart"},
      {{"data", "split", data, "-o", out + "2", "--copy"}, "new shards are always copies"},
      {{"data", "split", data + ",split_seed=4", "-o", out + "2"}, "are said by flags"},
      {{"data", "split", data + ",label=txt", "-o", out + "2"}, "none has label=txt"},
      {{"data", "split", data, "-o", out + "2", "--shard-size", "1KiB"}, "fits into one"},
      {{"data", "split", data, "-o", out + "2", "--shard-size", "1GB"}, "--shard-size 512MiB"},
      {{"data", "split", data, "-o", out + "2", "--shard-size", "0"}, "--shard-size 512MiB"}};
  for (const auto& [words, text] : refused) {
    Launched again(words);
    EXPECT_EQ(again.wait().code, 2) << text;
    EXPECT_THAT(again.err(), HasSubstr(text));
  }
  EXPECT_FALSE(fs::exists(out + "2"));
}

// The signal comes when it tells of what another one has left.
TEST_F(DataInfo, ASplitThatASignalStopsLeavesNothing) {
  put("pets/cat/0.jpg", "grey.jpg");
  put("pets/cat/1.jpg", "grey.jpg");
  std::vector<std::string> notes;
  const auto split = [&](int signal) {
    fs::create_directory(folder_.path() / ".out.partial-abcdef");
    std::ostringstream out;
    return split_data(out,
                      [&](const std::string& text) {
                        if (notes.empty() && signal != 0) ::raise(signal);
                        notes.push_back(text);
                      },
                      {.data = {.name = "folder", .params = {}},
                       .data_dir = folder_.path() / "pets",
                       .output = folder_.path() / "out",
                       .ratio = "0.5,0.5"});
  };
  for (const int signal : {SIGINT, SIGTERM}) {
    notes.clear();
    EXPECT_EQ(split(signal), signal);
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_THAT(notes[0], HasSubstr("/.out.partial-abcdef, which a division that was killed"));
    EXPECT_EQ(notes[1], "interrupted: nothing is written");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "pets";
  }
  EXPECT_EQ(split(0), 0);
  EXPECT_TRUE(fs::exists(folder_.path() / "out/train/cat"));
}

// The kernel's signal for a file at its limit would end the program without a word.
TEST_F(DataInfo, ASplitAtTheLimitOfAFilesSizeSaysSoAndLeavesNothing) {
  put("pets/cat/0.jpg", "grey.jpg");
  put("pets/cat/1.jpg", "grey.jpg");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);  // inherited
  Launched split({"data",
                  "split",
                  "folder:" + (folder_.path() / "pets").string(),
                  "-o",
                  folder_.path() / "out",
                  "--ratio",
                  "0.5,0.5",
                  "--copy"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(split.wait().code, 1);
  EXPECT_THAT(split.err(), HasSubstr("EFBIG"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "pets";
}

// colour_420.jpg has 29 rows of 37 pixels: halves are 15 and 19.
TEST_F(DataInfo, SaysWhatIsDecodedSmaller) {
  put("cat/0.jpg", "colour_420.jpg");
  put("cat/1.png", "colour8.png");
  Launched exact({"data", "info", spec() + ",size=14"});
  EXPECT_EQ(exact.wait().code, 0);
  EXPECT_THAT(exact.out(), Not(HasSubstr("decode ")));
  Launched fast({"data", "info", spec() + ",size=14,decode=fast"});
  EXPECT_EQ(fast.wait().code, 0) << fast.err();
  EXPECT_THAT(fast.out(),
              HasSubstr("decode   fast: 1 JPEG at 1/2, 1/4 or 1/8, with both sides 14 or more"));
  Launched as_json({"data", "info", spec() + ",size=15,decode=fast", "--json"});
  EXPECT_EQ(as_json.wait().code, 0);
  const Json split = parse_json(as_json.out(), "stdout").at("splits").at(0);
  EXPECT_EQ(split.at("decode"), "fast");
  EXPECT_EQ(split.at("jpegs_decoded_smaller"), 0) << "29 is less than twice 15";
}

// As `muster train` does.
TEST_F(DataInfo, RefusesWhatATrainingRefuses) {
  put("train/cat/0.jpg", "grey.jpg");
  put("train/dog/0.jpg", "grey.jpg");
  put("test/cta/0.jpg", "grey.jpg");
  write_file_atomic(folder_.path() / "a.csv", "x,y\n1,0.5\n2,1.7\n3,0.5\n4,1.7\n");
  const std::string rows = "csv:" + (folder_.path() / "a.csv").string();
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"data", "info", spec() + ",szie=3"}, "did you mean \"size\"?"},
      {{"data", "info", spec() + ",bad_files=drop"}, "raise, skip or substitute"},
      {{"data", "info", spec()}, "test/cta: the classes are cat, dog"},
      {{"data", "info", rows + ",target=y"}, "classes are texts or whole numbers"}};
  for (const auto& [words, text] : refused) {
    Launched info(words);
    EXPECT_EQ(info.wait().code, 2) << text;
    EXPECT_THAT(info.err(), HasSubstr(text));
  }
}

TEST_F(DataInfo, ATextOfAClassThatTheTrainingSplitHasNotIsBad) {
  const auto put_text = [&](const char* name, const char* text) {
    write_file_atomic(folder_.path() / name, text);
    return (folder_.path() / name).string();
  };
  const std::string train = put_text("a.csv", "text,label\ngood,pos\nbad,neg\n");
  const std::string test = put_text("b.csv", "text,label\nfair,pos\nso so,mid\n");
  Launched info({"data", "info", "text:" + train + ",test=" + test, "--json"});
  EXPECT_EQ(info.wait().code, 0) << info.err();
  const Json split = parse_json(info.out(), "stdout").at("splits").at(1);
  EXPECT_EQ(split.at("texts"), 1);
  ASSERT_EQ(split.at("bad").size(), 1U);
  EXPECT_EQ(split.at("bad")[0].at("fault"),
            "its class \"mid\" is none of the training split's: neg, pos");
}

TEST_F(DataInfo, RefusesWhatIsNoFolderOfImages) {
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"data"}, "it is not said what to do"},
      {{"data", "inform", spec()}, "no action \"inform\""},
      {{"data", "info", "mnist"}, "folder:PATH"},
      {{"data", "info", spec()}, "no folder in it"},
      {{"data", "info", "folder:/nowhere"}, "there is no such folder"},
      {{"data", "info", "tar:/nowhere/a.tar"}, "there is no such file"},
      {{"data", "info", "tar"}, "tar:PATTERN"},
      {{"data", "info", "csv:/nowhere/a.csv"}, "which column has the classes"},
      {{"data", "info", spec(), "--threads", "-1"}, "0 or more"}};
  for (const auto& [words, text] : refused) {
    Launched info(words);
    EXPECT_EQ(info.wait().code, 2) << text;
    EXPECT_THAT(info.err(), HasSubstr(text));
    EXPECT_EQ(info.out(), "");
  }
}

}  // namespace
}  // namespace muster::cli
