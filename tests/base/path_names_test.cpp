// Names that no file can have.
#include "muster/base/path_names.h"

#include <filesystem>
#include <string>

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refused(const fs::path& path) {
  return test::refusal_of([&] { require_nameable(path, "--output"); });
}

TEST(PathNames, HaveAtMost255BytesEach) {
  const std::string longest(255, 'a');
  EXPECT_EQ(test::error_of([&] { require_nameable(longest, "--output"); }), test::kNoError);
  EXPECT_EQ(refused("runs/" + longest + "a/x"),
            "--output: a name in a path has at most 255 bytes (got " + std::string(40, 'a') +
                "…, 256 bytes)\nhint: choose a shorter one");
  std::string letters;  // of two bytes
  for (int i = 0; i < 128; ++i) letters += "ü";
  EXPECT_THAT(refused(letters), AllOf(HasSubstr("ü…, 256 bytes"), HasSubstr("255 bytes")));
}

TEST(PathNames, HaveAtMost4095BytesTogether) {
  std::string path;
  for (int i = 0; i < 2048; ++i) path += "d/";
  EXPECT_THAT(refused(path), HasSubstr("a path has at most 4095 bytes"));
  path.pop_back();
  EXPECT_EQ(test::error_of([&] { require_nameable(path, "--output"); }), test::kNoError);
}

TEST(PathNames, TheKernelsWordForThemSaysTheRule) {
  EXPECT_EQ(
      errno_text(ENAMETOOLONG),
      "File name too long (ENAMETOOLONG), a name in a path has at most 255 bytes, a path 4095");
}

TEST(PathNames, AnExceptionOfTheStandardLibraryIsAnErrorOfOurs) {
  try {
    (void)fs::file_size(std::string(300, 'a'));
    FAIL();
  } catch (const fs::filesystem_error& error) {
    const Error told = file_system_error(error);
    EXPECT_EQ(told.kind(), ErrorKind::kEnvironment);
    EXPECT_THAT(told.what(),
                AllOf(HasSubstr("cannot use aaa"), HasSubstr("at most 255 bytes, a path 4095")));
  }
}

TEST(PathNames, AFolderThatCanBeMadeIsNotLeft) {
  const test::Folder folder;
  require_writable_folder(folder.path() / "a" / "b", "folder of x");
  EXPECT_FALSE(fs::exists(folder.path() / "a"));
  fs::create_directory(folder.path() / "there");
  require_writable_folder(folder.path() / "there", "folder of x");
  EXPECT_TRUE(fs::is_directory(folder.path() / "there"));
  EXPECT_THAT(test::error_of([&] {
                require_writable_folder(folder.path() / "there" / std::string(300, 'a'), "folder");
              }),
              HasSubstr("ENAMETOOLONG"));
}

}  // namespace
}  // namespace muster
