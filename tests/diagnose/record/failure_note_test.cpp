// What a process that fails leaves for its launcher. Each test notes in a process of its own.
#include "muster/diagnose/record/failure_note.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/error_report.h"
#include "muster/base/file.h"

#include "tests/support/folder.h"

namespace muster::diagnose {
namespace {

struct Left {
  int wait_status = 0;
  std::optional<ErrorReport> report;
};

int64_t steady_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class FailureNote : public ::testing::Test {
 protected:
  Left left_by(const std::function<void()>& rank_main) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("TORCHELASTIC_ERROR_FILE", file_.c_str(), 1);
      ::close(STDERR_FILENO);
      rank_main();
      ::_exit(0);
    }
    Left left;
    ::waitpid(child, &left.wait_status, 0);
    if (std::filesystem::exists(file_)) left.report = parse_error_report(read_file(file_));
    return left;
  }

  test::Folder folder_;
  const std::string file_ = (folder_.path() / "error.json").string();
};

void throw_error() { throw std::runtime_error("my own error"); }

TEST_F(FailureNote, SaysWhatAndWhenForItsUserAlone) {
  const int64_t before_ns = steady_ns();
  const Left left = left_by([] { note_failure("it broke"); });
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "it broke");
  EXPECT_FALSE(left.report->is_consequence);
  EXPECT_GE(left.report->monotonic_ns, before_ns);
  EXPECT_LE(left.report->monotonic_ns, steady_ns());
  EXPECT_GT(left.report->timestamp_s, 1'700'000'000);
  struct stat info {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

// torchrun compares nothing but whole seconds.
TEST_F(FailureNote, OfPeersIsOfALaterSecondThanItsCause) {
  const auto cause_s = static_cast<int64_t>(std::time(nullptr));
  const Left left = left_by([] { note_failure_of_peers("rank 1 is gone", {1}); });
  ASSERT_TRUE(left.report);
  EXPECT_GT(left.report->timestamp_s, cause_s);
}

TEST_F(FailureNote, IsTheFirstOfItsProcess) {
  const Left left = left_by([] {
    note_failure("it broke");
    note_failure("and more of it");
    note_failure_of_peers("rank 1 is gone", {1});
  });
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "it broke");
  EXPECT_FALSE(left.report->is_consequence);
}

TEST_F(FailureNote, OfPeersStaysBehindWhatTheProcessEndsOf) {
  const Left left = left_by([] {
    note_failure_of_peers("rank 1 is gone\nhint: look", {1});
    note_failure_of_peers("rank 2 is gone", {2});
    note_failure("the disk is full");
    note_failure("so this rank ends");
  });
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "the disk is full\nafter: rank 1 is gone\nhint: look");
  EXPECT_TRUE(left.report->is_consequence);
  EXPECT_EQ(left.report->after, std::vector<int64_t>{1});
}

TEST_F(FailureNote, OfPeersIsNotRepeatedByTheErrorThatPassesItOn) {
  const Left left = left_by([] {
    note_failure_of_peers("rank 1 is gone\nhint: look", {1});
    note_failure("allreduce #7 failed: rank 1 is gone");
  });
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "rank 1 is gone\nhint: look");
}

TEST_F(FailureNote, OfPeersIsTakenBackByWhatIsDoneWithPeersAfterIt) {
  const auto survive = [](int64_t later_ns, bool fails) {
    return [=] {
      note_uncaught_exceptions();
      note_failure_of_peers("rank 1 is gone", {1});
      note_success_with_peers(steady_ns() + later_ns);
      if (fails) note_failure("the disk is full");
    };
  };
  EXPECT_FALSE(left_by(survive(0, false)).report);
  const Left left = left_by(survive(0, true));
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "the disk is full");
  EXPECT_FALSE(left.report->is_consequence);
  std::filesystem::remove(file_);
  // Begun before.
  EXPECT_TRUE(left_by(survive(-1'000'000'000, false)).report);
}

TEST_F(FailureNote, IsNotWrittenByACopyOfTheRank) {
  EXPECT_FALSE(left_by([] {
                 note_uncaught_exceptions();
                 const pid_t copy = ::fork();
                 if (copy == 0) {
                   note_failure("a worker broke");
                   ::_exit(1);
                 }
                 ::waitpid(copy, nullptr, 0);
               }).report);
}

TEST_F(FailureNote, ThatCouldNotBeWrittenLeavesTheNextOneItsPlace) {
  const Left left = left_by([this] {
    std::filesystem::create_directory(file_ + ".part");
    note_failure("it broke");
    std::filesystem::remove(file_ + ".part");
    note_failure("it broke again");
  });
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "it broke again");
}

TEST_F(FailureNote, IsLeftByAnExceptionThatNobodyCatches) {
  const Left left = left_by([] {
    note_uncaught_exceptions();
    std::thread(&throw_error).join();
  });
  EXPECT_TRUE(WIFSIGNALED(left.wait_status) && WTERMSIG(left.wait_status) == SIGABRT);
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "std::runtime_error: my own error");
}

TEST_F(FailureNote, HasTheWordsOfOurErrorsAndLeavesTheEndToWhoWasThereBefore) {
  const Left left = left_by([] {
    std::set_terminate([] { ::_exit(7); });
    note_uncaught_exceptions();
    note_uncaught_exceptions();
    std::thread([] {
      throw usage_error({.refused = "world size 0", .rule = "at least 1"});
    }).join();
  });
  EXPECT_TRUE(WIFEXITED(left.wait_status) && WEXITSTATUS(left.wait_status) == 7);
  ASSERT_TRUE(left.report);
  EXPECT_EQ(left.report->message, "world size 0: at least 1");
}

TEST_F(FailureNote, IsHeardByWhoeverListensStill) {
  const auto write = [this](const std::string& name) {
    return [file = folder_.path() / name](const std::string& message) {
      write_file_atomic(file, message);
      throw std::runtime_error("a listener's own error");
    };
  };
  left_by([&] {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    const FailureListener first = on_failure(write("first")), second = on_failure(write("second"));
    on_failure(write("dropped")).reset();
    note_failure_of_peers("rank 1 is gone", {1});  // not its own
    if (!std::filesystem::exists(folder_.path() / "first")) note_failure("it broke");
  });
  EXPECT_EQ(read_file(folder_.path() / "first"), "it broke");
  EXPECT_EQ(read_file(folder_.path() / "second"), "it broke");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "dropped"));
}

TEST_F(FailureNote, OfACopyOfTheRankIsHeardByNobody) {
  left_by([&] {
    note_uncaught_exceptions();
    const FailureListener listener = on_failure(
        [&](const std::string& message) { write_file_atomic(folder_.path() / "heard", message); });
    const pid_t copy = ::fork();
    if (copy == 0) {
      note_failure("a copy broke");
      ::_exit(0);
    }
    ::waitpid(copy, nullptr, 0);
  });
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "heard"));
}

TEST_F(FailureNote, IsNoneWhereNobodyAsksForIt) {
  const Left left = left_by([] {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    note_failure("it broke");
  });
  EXPECT_EQ(left.wait_status, 0);
  EXPECT_FALSE(left.report);
  EXPECT_EQ(left_by([] {
              ::setenv("TORCHELASTIC_ERROR_FILE", "/nowhere/error.json", 1);
              note_failure("it broke");
            }).wait_status,
            0);
}

}  // namespace
}  // namespace muster::diagnose
