#include "muster/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

#include "tests/support/folder.h"

namespace muster {
namespace {

TEST(MappedFile, OutlivesItsFileAndNeverChangesIt) {
  const test::Folder folder;
  const auto path = folder.path() / "a";
  write_file_atomic(path, "hello");
  const auto map = MappedFile::open(path);
  EXPECT_EQ(map->bytes(), "hello");
  map->data()[0] = 'J';
  EXPECT_EQ(read_file(path), "hello");
  write_file_atomic(path, "other bytes");
  EXPECT_EQ(map->bytes(), "Jello");
  std::filesystem::remove(path);
  EXPECT_EQ(map->bytes(), "Jello");
}

TEST(MappedFile, TakesAnEmptyFile) {
  const test::Folder folder;
  write_file_atomic(folder.path() / "a", "");
  EXPECT_EQ(MappedFile::open(folder.path() / "a")->bytes().size(), 0U);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const test::Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  for (const char* name : {"missing", "fifo", "."}) {
    try {
      MappedFile::open(folder.path() / name);
      FAIL() << name << " was mapped";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    }
  }
}

}  // namespace
}  // namespace muster
