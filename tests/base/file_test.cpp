#include "muster/base/file.h"

#include <cstdlib>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"

#include "tests/support/error_of.h"
#include "tests/support/short_files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::muster_error_of;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "muster-file.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  fs::path folder_;
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string bytes(1 << 20, '\xff');
  write_file_atomic(folder_ / "a", bytes);
  EXPECT_EQ(read_file(folder_ / "a"), bytes);
  EXPECT_EQ(files(), 1U);
}

// What a kill leaves can be told from files that people have made.
TEST_F(FileTest, ATemporaryFileHasANameOfItsOwn) {
  AtomicFile file(folder_ / "latest");
  file.write("step-1");
  ASSERT_EQ(files(), 1U);
  const std::string name = fs::directory_iterator(folder_)->path().filename();
  EXPECT_THAT(name, ::testing::StartsWith(".unfinished-latest-"));
  file.commit();
  EXPECT_EQ(read_file(folder_ / "latest"), "step-1");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, ReadsFilesWhoseSizeTheKernelDoesNotTell) {
  EXPECT_FALSE(read_file("/proc/self/status").empty());
}

TEST_F(FileTest, MissingFileIsTheCallersFault) {
  EXPECT_EQ(muster_error_of([&] { read_file(folder_ / "none"); }).kind(), ErrorKind::kUsage);
  write_file_atomic(folder_ / "a", "x");
  EXPECT_EQ(muster_error_of([&] { read_file(folder_ / "a" / "b"); }).kind(), ErrorKind::kUsage);
}

TEST_F(FileTest, AFolderCannotBeReadAsAFile) {
  EXPECT_EQ(muster_error_of([&] { read_file(folder_); }).kind(), ErrorKind::kEnvironment);
}

TEST_F(FileTest, FullDiskLeavesTheOldFileAndNoTemporary) {
  write_file_atomic(folder_ / "a", "old");
  const test::ShortFiles limit(4096);
  const Error error =
      muster_error_of([&] { write_file_atomic(folder_ / "a", std::string(10000, 'x')); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("EFBIG"));
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, ANameMayBeAsLongAsTheKernelAllows) {
  const std::string longest(255, 'a');
  write_file_atomic(folder_ / longest, "x");
  EXPECT_EQ(read_file(folder_ / longest), "x");
  EXPECT_EQ(files(), 1U);
  EXPECT_THAT(muster_error_of([&] { write_file_atomic(folder_ / (longest + 'a'), "x"); }).what(),
              HasSubstr("a name in a path has at most 255 bytes"));
}

TEST_F(FileTest, FullDeviceIsNamedWithAHint) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Error error = muster_error_of([&] { write_all(full.get(), "x", "/dev/full"); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("cannot write /dev/full: No space left on device (ENOSPC)"));
  EXPECT_THAT(error.text().hint, HasSubstr("free some space"));
}

TEST_F(FileTest, APipeIsWrittenToAndALinkStays) {
  const fs::path pipe = folder_ / "pipe", link = folder_ / "link", file = folder_ / "file";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_file_atomic(pipe, "drawn");
  char got[8] = {};
  EXPECT_EQ(::read(reader.get(), got, sizeof got), 5);
  EXPECT_TRUE(fs::is_fifo(pipe));
  write_file_atomic(file, "old");
  fs::create_symlink(file, link);
  write_file_atomic(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "new");
  EXPECT_THAT(muster_error_of([] { write_file_atomic("/dev/full", "x"); }).what(),
              HasSubstr("No space left"));
}

TEST_F(FileTest, IsForThoseWhomTheUmaskLetsIn) {
  const auto mode_under = [&](mode_t mask) {
    const mode_t before = ::umask(mask);
    write_file_atomic(folder_ / "f", "secret");
    ::umask(before);
    return static_cast<unsigned>(fs::status(folder_ / "f").permissions());
  };
  EXPECT_EQ(mode_under(077), 0600U);
  EXPECT_EQ(mode_under(022), 0644U);
}

TEST_F(FileTest, AFolderInTheWayLeavesNoTemporary) {
  fs::create_directory(folder_ / "a");
  EXPECT_EQ(muster_error_of([&] { write_file_atomic(folder_ / "a", "x"); }).kind(),
            ErrorKind::kEnvironment);
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, MakesAFolderWithItsParentsAndLeavesItEmpty) {
  make_writable_folder(folder_ / "a/b", "output folder");
  EXPECT_TRUE(fs::is_empty(folder_ / "a/b"));
  make_writable_folder(folder_ / "a/b", "output folder");
}

// Permissions do not stop root, so the unwritable folders are one below a file and one that the
// kernel makes up.
TEST_F(FileTest, AFolderBelowAFileCannotBeMade) {
  write_file_atomic(folder_ / "a", "x");
  const Error error =
      muster_error_of([&] { make_writable_folder(folder_ / "a/b", "output folder"); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("cannot create the output folder"));
}

TEST_F(FileTest, AFolderThatTakesNoFilesIsRefused) {
  const Error error = muster_error_of([] { make_writable_folder("/proc/self", "output folder"); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("cannot write into the output folder /proc/self"));
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = a.get();
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a);
  EXPECT_EQ(b.get(), number);
  b = UniqueFd();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  UniqueFd c(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  c = std::move(*&c);
  EXPECT_TRUE(c);
}

}  // namespace
}  // namespace muster
