#include "muster/formats/image/divided_folders.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClassFolders files_of(const std::vector<std::pair<std::string, int>>& classes) {
  ClassFolders files;
  for (const auto& [name, count] : classes) {
    for (int i = 0; i < count; ++i)
      files.files.push_back(
          {concat(name, '/', i, ".jpg"), static_cast<int64_t>(files.classes.size())});
    files.classes.push_back(name);
  }
  return files;
}

/// How many of each class are in each part.
std::vector<std::vector<size_t>> counts(const ClassFolders& files,
                                        const std::vector<double>& shares,
                                        uint64_t seed = 0) {
  std::vector<std::vector<size_t>> out(files.classes.size(), std::vector<size_t>(shares.size()));
  const std::vector<size_t> part_of = divide_files(files, shares, seed);
  for (size_t at = 0; at < part_of.size(); ++at)
    ++out[static_cast<size_t>(files.files[at].label)][part_of[at]];
  return out;
}

TEST(DivideFiles, GivesEachPartItsShareOfEachClass) {
  const ClassFolders files =
      files_of({{"a", 100}, {"b", 10}, {"c", 7}, {"d", 3}, {"e", 2}, {"f", 1}});
  EXPECT_THAT(counts(files, {0.8, 0.1, 0.1}),
              ElementsAre(ElementsAre(80, 10, 10),
                          ElementsAre(8, 1, 1),
                          ElementsAre(5, 1, 1),
                          ElementsAre(1, 1, 1),
                          ElementsAre(2, 0, 0),
                          ElementsAre(1, 0, 0)));
  EXPECT_THAT(counts(files_of({{"a", 10}, {"b", 3}}), {0.5, 0.5}),
              ElementsAre(ElementsAre(5, 5), ElementsAre(2, 1)));
}

TEST(DivideFiles, DrawsByTheSeedAndTheClassAlone) {
  const ClassFolders files = files_of({{"a", 40}, {"b", 40}});
  const auto first = divide_files(files, {0.5, 0.5}, 3);
  EXPECT_EQ(divide_files(files, {0.5, 0.5}, 3), first);
  EXPECT_NE(divide_files(files, {0.5, 0.5}, 4), first);
  EXPECT_NE(std::vector(first.begin(), first.begin() + 40),
            std::vector(first.begin() + 40, first.end()));
  const auto with_more = divide_files(files_of({{"a", 40}, {"aa", 9}, {"b", 40}}), {0.5, 0.5}, 3);
  EXPECT_EQ(std::vector(with_more.begin() + 49, with_more.end()),
            std::vector(first.begin() + 40, first.end()));
}

TEST(DivideFiles, RefusesSharesWithoutSense) {
  const ClassFolders files = files_of({{"a", 4}});
  for (const std::vector<double>& shares :
       {std::vector<double>{}, {1.0}, {0.5, 0.4}, {1.5, -0.5}, {1, 0}})
    EXPECT_THAT(test::refusal_of([&] { divide_files(files, shares, 0); }),
                HasSubstr("which add up to 1"));
}

class WrittenFolders : public ::testing::Test {
 protected:
  WrittenFolders() {
    for (const char* name : {"in/a/0.jpg", "in/a/more/1.jpg", "in/b/2.jpg", "in/b/3.jpg"}) {
      fs::create_directories((at(name)).parent_path());
      write_file_atomic(at(name), name);
    }
    files_ = list_class_folders(at("in"));
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  void write(FileTransfer how) const {
    write_divided_folders(files_, {0, 1, 1, 0}, {"train", "val"}, at("out"), how);
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  test::Folder folder_;
  ClassFolders files_;
};

TEST_F(WrittenFolders, AreHardLinksOrCopies) {
  for (const FileTransfer how : {FileTransfer::kLink, FileTransfer::kCopy}) {
    write(how);
    EXPECT_EQ(read_file(at("out/train/a/0.jpg")), "in/a/0.jpg");
    EXPECT_EQ(read_file(at("out/val/a/more/1.jpg")), "in/a/more/1.jpg");
    EXPECT_EQ(read_file(at("out/val/b/2.jpg")), "in/b/2.jpg");
    EXPECT_EQ(fs::equivalent(at("out/val/b/2.jpg"), at("in/b/2.jpg")), how == FileTransfer::kLink);
    EXPECT_EQ(fs::last_write_time(at("out/train/b/3.jpg")), fs::last_write_time(at("in/b/3.jpg")));
    EXPECT_EQ(entries(), 2U);
    fs::remove_all(at("out"));
  }
}

TEST_F(WrittenFolders, AreApartFromWhatTheyAreMadeOf) {
  fs::create_directory_symlink(at("in/a"), at("other"));
  const auto refusal = [&](const fs::path& target) {
    return test::refusal_of([&] {
      write_divided_folders(files_, {0, 1, 1, 0}, {"x", "y"}, target, FileTransfer::kLink);
    });
  };
  EXPECT_THAT(refusal(at("in/out")), HasSubstr("(got it is below " + at("in").string()));
  EXPECT_THAT(refusal(at("in/a/more/out/")), HasSubstr("it is below "));
  EXPECT_THAT(refusal(at("other/out")), HasSubstr("it is below ")) << "by a link";
  EXPECT_THAT(refusal(at("in/../in")), HasSubstr("it is " + at("in").string()));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("it is above "));
  EXPECT_FALSE(fs::exists(at("in/out")));
  fs::create_directories(at("far/c"));
  write_file_atomic(at("far/c/1.jpg"), "c");
  fs::create_directory_symlink(at("far/c"), at("in/c"));
  files_ = list_class_folders(at("in"));
  EXPECT_THAT(refusal(at("far/c/out")), HasSubstr("it is below ")) << "a class that is a link";
  require_apart(at("in"), at("inner"));
}

TEST_F(WrittenFolders, AreNotThereWhereSomebodyStopsIt) {
  int asked = 0;
  EXPECT_FALSE(write_divided_folders(
      files_, {0, 1, 1, 0}, {"train", "val"}, at("out"), FileTransfer::kLink, [&] {
        return ++asked == 3;
      }));
  EXPECT_EQ(entries(), 1U) << "nothing is left";
}

// What a process that was killed has left has no lock; that of one that lives has.
TEST_F(WrittenFolders, WhatIsLeftBehindIsRemovedUnlessSomebodyWritesIt) {
  for (const char* name :
       {".out.partial-abcdef/train/a", ".out.partial-live00", ".outer.partial-abcdef"})
    fs::create_directories(at(name));
  const UniqueFd lives(::open(at(".out.partial-live00").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(lives.get(), LOCK_EX), 0);
  EXPECT_THAT(remove_left_behind(at("out/")), ElementsAre(at(".out.partial-abcdef")));
  EXPECT_FALSE(fs::exists(at(".out.partial-abcdef")));
  EXPECT_TRUE(fs::exists(at(".out.partial-live00")));
  EXPECT_TRUE(fs::exists(at(".outer.partial-abcdef"))) << "of another folder";
  std::vector<fs::path> removed_while_writing;
  write_divided_folders(
      files_, {0, 1, 1, 0}, {"train", "val"}, at("out"), FileTransfer::kLink, [&] {
        for (fs::path& one : remove_left_behind(at("out"))) removed_while_writing.push_back(one);
        return false;
      });
  EXPECT_TRUE(removed_while_writing.empty());
  EXPECT_TRUE(fs::exists(at("out/train/a/0.jpg")));
}

TEST_F(WrittenFolders, NameTheSourceThatIsAtFault) {
  const auto refusal = [&](FileTransfer how) {
    return test::refusal_of([&] { write(how); }, ErrorKind::kEnvironment);
  };
  fs::remove(at("in/b/3.jpg"));
  fs::create_symlink("nowhere.jpg", at("in/b/3.jpg"));
  for (const FileTransfer how : {FileTransfer::kLink, FileTransfer::kCopy})
    EXPECT_THAT(refusal(how),
                HasSubstr(at("in/b/3.jpg").string() +
                          ": it is a file that can be read (got a link that leads nowhere)"));
  fs::remove(at("in/b/3.jpg"));
  ASSERT_EQ(::mkfifo(at("in/b/3.jpg").c_str(), 0600), 0);
  for (const FileTransfer how : {FileTransfer::kLink, FileTransfer::kCopy})
    EXPECT_THAT(refusal(how), HasSubstr("in/b/3.jpg: it is a file that can be read (got a pipe"));
  EXPECT_EQ(entries(), 1U) << "nothing is left";
}

TEST_F(WrittenFolders, AreThereAsAWholeOrNotAtAll) {
  fs::remove(at("in/b/3.jpg"));
  EXPECT_THAT(test::refusal_of([&] { write(FileTransfer::kCopy); }, ErrorKind::kEnvironment),
              HasSubstr("in/b/3.jpg: it is a file that can be read (got No such file"));
  EXPECT_EQ(entries(), 1U) << "nothing is left";
  fs::create_directory(at("out"));
  EXPECT_THAT(test::refusal_of([&] { write(FileTransfer::kLink); }),
              HasSubstr("nothing is overwritten"));
  EXPECT_TRUE(fs::is_empty(at("out")));
}

}  // namespace
}  // namespace muster::formats
