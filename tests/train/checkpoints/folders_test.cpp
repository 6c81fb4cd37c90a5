// Folders that are replaced as a whole, also where two cannot change places and where a process is
// killed on the way.
#include "muster/train/checkpoints/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "muster/base/file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/checkpoints/kill_at_change.h"

int muster::test::calls_left = -1;

namespace {

void count_call() {
  if (muster::test::calls_left < 0) return;
  if (muster::test::calls_left-- == 0) ::_exit(137);
}

}  // namespace

// In the place of libc's, also for the C++ library.
extern "C" int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int unlink(const char* path) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}
extern "C" int link(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::refusal_of;
using ::testing::HasSubstr;

int no_exchange(const char* /*one*/, const char* /*other*/) {
  errno = EINVAL;  // as NFS
  return -1;
}

TEST(PutInPlace, ReplacesAFolderAlsoWhereTwoCannotChangePlaces) {
  for (const train::ExchangeFolders& exchange :
       {train::ExchangeFolders(train::exchange_folders), train::ExchangeFolders(no_exchange)}) {
    const test::Folder place;
    for (const char* name : {"old", "new"}) {
      fs::create_directory(place.path() / name);
      write_file_atomic(place.path() / name / "file", name);
    }
    train::put_in_place(place.path() / "new", place.path() / "old", exchange);
    EXPECT_EQ(read_file(place.path() / "old" / "file"), "new");
    EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), fs::directory_iterator{}), 1);
  }
}

TEST(PutInPlace, IsFinishedAfterAKillWhereTwoCannotChangePlaces) {
  const auto make = [](const fs::path& place) {
    for (const char* name : {"old", "new"}) {
      fs::create_directory(place / name);
      write_file_atomic(place / name / "file", name);
    }
  };
  const auto replace = [](const fs::path& place) {
    train::put_in_place(place / "new", place / "old", no_exchange);
  };
  test::kill_at_each_change(make, replace, [](const fs::path& place) {
    train::put_back_replaced(place);
    const std::string there = read_file(place / "old" / "file");
    EXPECT_TRUE(there == "old" || there == "new") << there;
    EXPECT_FALSE(fs::exists(place / ".replaced-old"));
  });
}

TEST(PutInPlace, SaysWhyItCannot) {
  const test::Folder place;
  fs::create_directory(place.path() / "old");
  const auto denied = [](const char* /*one*/, const char* /*other*/) {
    errno = EACCES;
    return -1;
  };
  EXPECT_THAT(
      refusal_of([&] { train::put_in_place(place.path() / "new", place.path() / "old", denied); },
                 ErrorKind::kEnvironment),
      HasSubstr("EACCES"));
}

// Who may not write into a run's folder may still go on from it in another one.
TEST(LinkOrCopy, OfAReadOnlyFolderCanBeWrittenAndRemoved) {
  const test::Folder place;
  const fs::path from = place.path() / "from", to = place.path() / "to";
  fs::create_directories(from / "inner");
  write_file_atomic(from / "inner" / "file", "text");
  constexpr fs::perms kReadOnly =
      fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read;
  for (const fs::path& folder : {from / "inner", from})
    fs::permissions(folder, kReadOnly, fs::perm_options::replace);
  train::link_or_copy(from, to);
  EXPECT_EQ(read_file(to / "inner" / "file"), "text");
  for (const fs::path& folder : {to, to / "inner"})
    EXPECT_NE(fs::status(folder).permissions() & fs::perms::owner_write, fs::perms::none) << folder;
  for (const fs::path& folder : {from, from / "inner"})
    fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add);
}

}  // namespace
}  // namespace muster
