#include "muster/base/process_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/host.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

/// A process that takes the lock and keeps it until it is killed.
class LockKeeper {
 public:
  explicit LockKeeper(const fs::path& path, bool with_child = false) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      LockHolder other;
      const auto lock = ProcessLock::try_acquire(path, other);
      // A child of the holder that lives on and has all its descriptors.
      const pid_t child = with_child ? ::fork() : 1;
      if (child != 0) (void)!::write(ready[1], &child, sizeof child);
      for (;;) ::pause();
    }
    EXPECT_EQ(::read(ready[0], &child_, sizeof child_), static_cast<ssize_t>(sizeof child_));
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~LockKeeper() {
    end();
    if (child_ > 1) ::kill(child_, SIGKILL);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1, child_ = -1;
};

TEST(ProcessLock, LeavesTheFileOfAnotherWhereItsOwnWasMovedAway) {
  const test::Folder folder;
  const fs::path place = folder.path() / "run", other = folder.path() / "moved";
  fs::create_directory(place);
  LockHolder holder;
  auto mine = ProcessLock::try_acquire(place / "lock", holder);
  ASSERT_TRUE(mine);
  fs::rename(place, other);
  fs::create_directory(place);
  write_file_atomic(place / "lock", "another's");
  mine.reset();
  EXPECT_TRUE(fs::exists(place / "lock"));
}

TEST(ProcessLock, NamesTheProcessAndHostThatHoldItAndDiesWithThem) {
  const test::Folder folder;
  const fs::path file = folder.path() / "lock";
  LockHolder holder;
  LockKeeper keeper(file);
  EXPECT_EQ(ProcessLock::try_acquire(file, holder), nullptr);
  EXPECT_EQ(holder.pid, keeper.pid());
  EXPECT_EQ(holder.host, host_name());
  ASSERT_TRUE(ProcessLock::holder_of(file));
  EXPECT_EQ(ProcessLock::holder_of(file)->pid, keeper.pid());
  keeper.end();
  EXPECT_EQ(ProcessLock::holder_of(file), std::nullopt);
  const auto mine = ProcessLock::try_acquire(file, holder);
  ASSERT_NE(mine, nullptr);
  EXPECT_TRUE(mine->keeps_others_out());
}

TEST(ProcessLock, IsFreeWhenItsProcessIsDeadThoughAChildLivesOn) {
  const test::Folder folder;
  const fs::path file = folder.path() / "lock";
  LockKeeper keeper(file, /*with_child=*/true);
  keeper.end();
  LockHolder holder;
  EXPECT_NE(ProcessLock::try_acquire(file, holder), nullptr);
}

TEST(ProcessLock, KeepsOutASecondOneOfTheSameProcessUnderAnyName) {
  const test::Folder folder;
  LockHolder holder;
  auto mine = ProcessLock::try_acquire(folder.path() / "lock", holder);
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(ProcessLock::try_acquire(folder.path() / "." / "lock", holder), nullptr);
  EXPECT_EQ(holder.pid, ::getpid());
  EXPECT_EQ(ProcessLock::holder_of(folder.path() / "lock")->pid, ::getpid());
  mine.reset();
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_NE(ProcessLock::try_acquire(folder.path() / "lock", holder), nullptr);
}

TEST(ProcessLock, InAFolderThatIsNotThereIsAnEnvironmentError) {
  const test::Folder folder;
  LockHolder holder;
  EXPECT_THAT(
      test::refusal_of([&] { ProcessLock::try_acquire(folder.path() / "no" / "lock", holder); },
                       ErrorKind::kEnvironment),
      ::testing::HasSubstr("cannot lock"));
}

// Each of them counts up a number that nothing else protects; a lock that lets two in loses some.
TEST(ProcessLock, LetsOneInAtATimeWhoeverCreatesAndRemovesTheFile) {
  constexpr int kProcesses = 4, kTurns = 50;
  const test::Folder folder, place;
  const fs::path count = folder.path() / "count";
  write_file_atomic(count, "0");
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int turn = 0; turn < kTurns;) {
      LockHolder holder;
      const auto lock = ProcessLock::try_acquire(place.path() / "lock", holder);
      if (!lock) continue;
      AtomicFile file(count);
      file.write(std::to_string(std::stoi(read_file(count)) + 1));
      file.commit(/*sync=*/false);
      ++turn;
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_file(count), std::to_string(kProcesses * kTurns));
}

}  // namespace
}  // namespace muster
