// Which files a pattern names, and which of them are which split.
#include "muster/formats/tar/shard_pattern.h"

#include <cstdlib>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/base/file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ExpandBraces, WritesNumbersAndListsOut) {
  EXPECT_THAT(expand_braces("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(expand_braces("a-{8..11}.tar"),
              ElementsAre("a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar"));
  EXPECT_THAT(expand_braces("{008..10}"), ElementsAre("008", "009", "010"));
  EXPECT_THAT(expand_braces("{2..0}"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(expand_braces("{a,b}-{0..1}"), ElementsAre("a-0", "a-1", "b-0", "b-1"));
  EXPECT_THAT(expand_braces("{a,}x"), ElementsAre("ax", "x"));
  EXPECT_THAT(expand_braces("{a}{b"), ElementsAre("{a}{b"));
  EXPECT_THAT(expand_braces(""), ElementsAre(""));
}

TEST(ExpandBraces, RefusesWhatWouldBeTooMuch) {
  EXPECT_THAT(test::refusal_of([] { expand_braces("{0..100000}"); }),
              HasSubstr("tar shards {0..100000}: at most 100000 shards"));
  EXPECT_THAT(test::refusal_of([] { expand_braces("{0..999}{0..999}"); }), HasSubstr("at most"));
  EXPECT_THAT(test::refusal_of([] { expand_braces("{0..999999999999999999}"); }),
              HasSubstr("at most"));
  EXPECT_THAT(test::refusal_of([] { expand_braces("{0..9..3}"); }),
              HasSubstr("two numbers (got {0..9..3})"));
  EXPECT_THAT(test::refusal_of([] { expand_braces("{a..3}"); }), HasSubstr("two numbers"));
}

class Shards : public ::testing::Test {
 protected:
  void put(const std::string& name) {
    fs::create_directories((folder_.path() / name).parent_path());
    write_file_atomic(folder_.path() / name, "");
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::vector<std::string> names(const std::vector<fs::path>& files) {
    std::vector<std::string> out;
    for (const fs::path& file : files) out.push_back(file.filename().string());
    return out;
  }
  std::vector<std::string> found(const std::string& pattern) const {
    return names(find_shards(at(pattern)));
  }
  std::string refusal(const std::string& pattern) const {
    return test::refusal_of([&] { find_shards(at(pattern)); });
  }

  test::Folder folder_;
};

TEST_F(Shards, AreFilesBracesPatternsAndFolders) {
  for (const char* name : {"a-10.tar", "a-9.tar", "a-8.tar", "a-9.txt", "b.tar", "c{x}.tar"})
    put(name);
  EXPECT_THAT(found("b.tar"), ElementsAre("b.tar"));
  EXPECT_THAT(found("a-{8..10}.tar"), ElementsAre("a-8.tar", "a-9.tar", "a-10.tar"));
  EXPECT_THAT(found("a-*.tar"), ElementsAre("a-10.tar", "a-8.tar", "a-9.tar"));
  EXPECT_THAT(found("{b,a-?}.tar"), ElementsAre("b.tar", "a-8.tar", "a-9.tar"));
  EXPECT_THAT(found("a-[89].tar"), ElementsAre("a-8.tar", "a-9.tar"));
  EXPECT_THAT(found("c{x}.tar"), ElementsAre("c{x}.tar"));
  EXPECT_THAT(found(""), ElementsAre("a-10.tar", "a-8.tar", "a-9.tar", "b.tar", "c{x}.tar"));
}

TEST_F(Shards, ThatAreNotThereAreNamed) {
  for (const char* name : {"a-0.tar", "a-1.tar", "empty/a.txt"}) put(name);
  EXPECT_THAT(refusal("a-{0..3}.tar"), HasSubstr("there is no such file (got " + at("a-2.tar)")));
  EXPECT_THAT(refusal("b-*.tar"), HasSubstr("a file fits the pattern (got " + at("b-*.tar)")));
  EXPECT_THAT(refusal("empty"), HasSubstr("the folder has a file that ends in .tar"));
  EXPECT_THAT(refusal("a-{0,*}.tar"), HasSubstr("each shard is named once (got " + at("a-0.tar)")));
}

// What may not be seen is not what is not there. A link to itself can be read by nobody, root included.
TEST_F(Shards, AFolderThatCannotBeReadIsNamed) {
  put("good/a-0.tar");
  const auto said = [&](const std::string& pattern) {
    return test::error_of([&] { find_shards(at(pattern)); });
  };
  EXPECT_THAT(found("*/a-*.tar"), ElementsAre("a-0.tar"));
  fs::create_symlink("nowhere", at("dangling"));  // no folder, and nothing can be missing there
  EXPECT_THAT(found("*/a-*.tar"), ElementsAre("a-0.tar"));
  fs::create_symlink("loop", at("loop"));
  for (const char* pattern : {"loop/a-*.tar", "loop/a-{0..3}.tar", "loop/a.tar"})
    EXPECT_THAT(said(pattern), AllOf(HasSubstr(at("loop")), HasSubstr("symbolic links")));
  EXPECT_THAT(said("{" + std::string(300, 'x') + ",good/a-0}.tar"),
              HasSubstr("there is no such file"));
}

// In a process of a user who is not root: to that one no folder is closed.
TEST_F(Shards, AFolderAmongOthersThatCannotBeReadIsNamed) {
  for (const char* name : {"good/a-0.tar", "closed/a-0.tar", "good/in/b.tar", "closed/in/b.tar"})
    put(name);
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(at("closed"), fs::perms(0));
  for (const char* pattern :
       {"*/a-*.tar", "*/a-0.tar", "clos*/a-0.tar", "*/a-0\\.tar", "*/in/b.tar", "*/in/*.tar"}) {
    EXPECT_EXIT(
        {
          constexpr uid_t kNobody = 65534;
          if (::geteuid() == 0 && ::setuid(kNobody) != 0) std::_Exit(3);
          std::cerr << test::error_of([&] { find_shards(at(pattern)); });
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0),
        "closed: Permission denied")
        << pattern;
  }
  fs::permissions(at("closed"), fs::perms(0755));
}

TEST_F(Shards, WhatHasNoSuchFileIsPassedOver) {
  for (const char* name : {"good/in/a.tar", "good/[a.tar", "other/b.tar", "file"}) put(name);
  fs::create_symlink("nowhere", at("dangling"));
  for (const char* pattern : {"*/in/a.tar", "*/./in//a.tar", "g*/*/a.tar"})
    EXPECT_THAT(found(pattern), ElementsAre("a.tar")) << pattern;
  EXPECT_THAT(found("*/[a.tar"), ElementsAre("[a.tar"));
  EXPECT_THAT(refusal("*/in/b.tar"), HasSubstr("a file fits the pattern"));
}

TEST_F(Shards, SplitsAreNamedOrStandInTheirNames) {
  for (const char* name : {"train-0.tar", "train-1.tar", "val-0.tar"}) put(name);
  const auto split = [&](const std::string& pattern, const std::string& test = "") {
    const ShardSplits splits = find_shard_splits(at(pattern), test);
    return std::pair{names(splits.train), names(splits.test)};
  };
  using Names = std::vector<std::string>;
  const Names train{"train-0.tar", "train-1.tar"};
  EXPECT_EQ(split(""), (std::pair{train, Names{"val-0.tar"}}));
  EXPECT_EQ(split("train-*.tar"), (std::pair{train, Names()}));
  EXPECT_EQ(split("train-*.tar", at("val-0.tar")), (std::pair{train, Names{"val-0.tar"}}));
  EXPECT_THAT(test::refusal_of([&] { split("*.tar", at("val-0.tar")); }),
              HasSubstr("of the training or of the test split"));
  // The same file by another name, which would else be tested with what it was trained with.
  EXPECT_THAT(test::refusal_of([&] { split("val-0.tar", at("./val-0.tar")); }),
              HasSubstr("of the training or of the test split"));
  std::filesystem::create_symlink(at("train-0.tar"), at("linked.tar"));
  EXPECT_THAT(test::refusal_of([&] { split("train-*.tar", at("linked.tar")); }),
              HasSubstr("linked.tar, which is " + at("train-0.tar")));
  std::filesystem::remove(at("linked.tar"));
  EXPECT_THAT(test::refusal_of([&] { split("{val-0.tar,./val-0.tar}"); }),
              HasSubstr("each shard is named once"));
  put("test_0.tar");
  EXPECT_EQ(split(""), (std::pair{train, Names{"test_0.tar"}})) << "test comes before val";
  put("others.tar");
  EXPECT_THAT(test::refusal_of([&] { split(""); }),
              HasSubstr("where names begin with train and test, all do (got others.tar)"));
  put("train/0.tar");
  put("valid/1.tar");
  EXPECT_EQ(split(""), (std::pair{Names{"0.tar"}, Names{"1.tar"}}));
  std::filesystem::remove_all(at("valid"));
  std::filesystem::create_directory_symlink(at("train"), at("valid"));
  EXPECT_THAT(test::refusal_of([&] { split(""); }),
              HasSubstr("of the training or of the test split"));
  put("new/trained.tar");
  put("new/test-0.tar");
  EXPECT_EQ(split("new"), (std::pair{Names{"test-0.tar", "trained.tar"}, Names()}));
}

}  // namespace
}  // namespace muster::formats
