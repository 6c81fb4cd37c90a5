// A file system on which SQLite keeps no write-ahead log: it says so in the answer to the PRAGMA, and
// goes on in another mode, in which readers and writers would be in each other's way.
#include <filesystem>

#include <gmock/gmock.h>
#include <sqlite3.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// While it lives, files are opened as on a file system without shared memory.
class NoSharedMemory {
 public:
  NoSharedMemory() : before_(::sqlite3_vfs_find(nullptr)) {
    ::sqlite3_vfs_register(::sqlite3_vfs_find("unix-dotfile"), /*makeDflt=*/1);
  }
  ~NoSharedMemory() { ::sqlite3_vfs_register(before_, 1); }
  NoSharedMemory(const NoSharedMemory&) = delete;
  NoSharedMemory& operator=(const NoSharedMemory&) = delete;

 private:
  ::sqlite3_vfs* before_;
};

TEST(WriteAheadLog, ThatTheFileSystemRefusesIsToldAndNoStudyIsMade) {
  ASSERT_NE(::sqlite3_vfs_find("unix-dotfile"), nullptr);
  const test::Folder folder;
  const auto file = folder.path() / "fashion.db";
  const Space space = test::small_space();
  const auto open = [&] { return open_storage(file, space, test::description_of(space)); };
  {
    const NoSharedMemory now;
    EXPECT_THAT(test::refusal_of(open, ErrorKind::kEnvironment),
                AllOf(HasSubstr("cannot keep " + file.string()),
                      HasSubstr("its file system can keep a write-ahead log"),
                      HasSubstr("(got journal mode delete)"),
                      HasSubstr("choose a storage on a local disk")));
  }
  EXPECT_EQ(open()->events().size(), 0U) << "where it can be kept, the study is made";
  EXPECT_EQ(test::rows_of(file, "PRAGMA journal_mode", 1)[0], "wal");
}

}  // namespace
}  // namespace muster::tune
