// The launcher as a library, in this process: what an observer hears, and what is refused before
// anything starts.
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/launch/job/launcher.h"
#include "muster/launch/job/log_folder.h"
#include "muster/launch/process/program.h"

#include "tests/support/error_of.h"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Heard : JobObserver {
  std::map<int64_t, std::vector<std::string>> lines;
  std::vector<std::string> errors, progress, notes;

  void on_line(int64_t rank, Stream stream, std::string_view line) override {
    (stream == Stream::kOut ? lines[rank] : errors).emplace_back(line);
  }
  void on_progress(std::string_view line) override { progress.emplace_back(line); }
  void on_note(std::string_view text) override { notes.emplace_back(text); }
};

class LocalLauncher : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "muster-launch.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  JobOutcome shell(const std::string& script, int64_t ranks = 1) {
    return launchers().at("local").run({.argv = {"sh", "-c", script},
                                        .nproc_per_node = ranks,
                                        .run_id = "test",
                                        .log_dir = folder_,
                                        .forward_signals = false},
                                       heard_);
  }

  Error refusal(const JobSpec& spec) {
    return test::muster_error_of([&] { launchers().at("local").run(spec, heard_); });
  }

  fs::path folder_;
  Heard heard_;
};

TEST_F(LocalLauncher, TellsLinesOfEachRankAndStream) {
  const JobOutcome outcome = shell("echo $RANK/$WORLD_SIZE; echo oops >&2; echo again", 2);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(heard_.lines[0], ElementsAre("0/2", "again"));
  EXPECT_THAT(heard_.lines[1], ElementsAre("1/2", "again"));
  EXPECT_THAT(heard_.errors, ElementsAre("oops", "oops"));
}

TEST_F(LocalLauncher, TellsProgressOfTheFirstRank) {
  shell("[ -z \"$MUSTER_PROGRESS_FD\" ] || echo here >&$MUSTER_PROGRESS_FD", 2);
  EXPECT_THAT(heard_.progress, ElementsAre("here"));
}

TEST_F(LocalLauncher, KeepsTheLastLinesAndTheLogOfTheFailedRank) {
  const JobOutcome outcome = shell("echo before; echo why >&2; exit 3");
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.failure->last_lines, ::testing::UnorderedElementsAre("before", "why"));
  EXPECT_EQ(read_file(outcome.failure->log), "why\n");
  EXPECT_EQ(outcome.failure->log, folder_ / "test/attempt_0/0/stderr.log");
}

TEST_F(LocalLauncher, NamesTheLogThatHasSomethingInIt) {
  const JobOutcome on_stdout = shell("echo why; exit 3");
  ASSERT_TRUE(on_stdout.failure);
  EXPECT_EQ(on_stdout.failure->log, folder_ / "test/attempt_0/0/stdout.log");
  EXPECT_EQ(read_file(on_stdout.failure->log), "why\n");
  const JobOutcome silent = shell("exit 3");
  ASSERT_TRUE(silent.failure);
  EXPECT_EQ(silent.failure->log, "");
  EXPECT_THAT(describe(*silent.failure), ::testing::Not(HasSubstr("log:")));
}

TEST_F(LocalLauncher, LeavesTheLogsOfAnEarlierRunOfTheSameName) {
  EXPECT_EQ(shell("echo one").log_folder, folder_ / "test");
  EXPECT_THAT(heard_.notes, ::testing::IsEmpty());
  const JobOutcome second = shell("echo two");
  EXPECT_EQ(second.log_folder, folder_ / "test-2");
  EXPECT_THAT(heard_.notes, ElementsAre(HasSubstr((folder_ / "test-2").string())));
  EXPECT_EQ(shell("echo three").log_folder, folder_ / "test-3");
  EXPECT_EQ(read_file(folder_ / "test/attempt_0/0/stdout.log"), "one\n");
  EXPECT_EQ(read_file(folder_ / "test-2/attempt_0/0/stdout.log"), "two\n");
  EXPECT_EQ(read_file(folder_ / "test-3/attempt_0/0/stdout.log"), "three\n");
}

TEST_F(LocalLauncher, KeepsLogsOfRunsApartThatBeginAtOnceUnderOneName) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Heard heard;
      const JobOutcome outcome =
          launchers().at("local").run({.argv = {"sh", "-c", concat("echo ", i)},
                                       .run_id = "test",
                                       .log_dir = folder_,
                                       .forward_signals = false},
                                      heard);
      EXPECT_EQ(read_file(outcome.log_folder / "attempt_0/0/stdout.log"), concat(i, '\n'));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LocalLauncher, KeepsTheLogsOfAllTriesAtAPort) {
  shell("echo $MASTER_PORT; exit 98");
  ASSERT_EQ(heard_.lines[0].size(), 4U);
  std::string all;
  for (const std::string& port : heard_.lines[0]) all += port + '\n';
  EXPECT_EQ(read_file(folder_ / "test/attempt_0/0/stdout.log"), all);
}

TEST_F(LocalLauncher, RunsInAProgramWithThreadsAndSeveralJobsAtOnce) {
  std::vector<std::thread> threads;
  std::array<int, 8> codes{};
  for (size_t i = 0; i < codes.size(); ++i) {
    threads.emplace_back([&, i] {
      Heard heard;
      codes[i] = launchers()
                     .at("local")
                     .run({.argv = {"sh", "-c", "exit " + std::to_string(i % 2)},
                           .nproc_per_node = 2,
                           .run_id = concat("job-", i),
                           .log_dir = folder_,
                           .forward_signals = false},
                          heard)
                     .exit_code;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(codes, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST_F(LocalLauncher, GivesTheRanksOfAJobAKeyOfItsOwn) {
  shell("echo $MUSTER_JOB_KEY", 2);
  shell("echo $MUSTER_JOB_KEY");
  ASSERT_EQ(heard_.lines[0].size(), 2U);
  EXPECT_EQ(heard_.lines[0][0].size(), 32U);
  EXPECT_EQ(heard_.lines[0][0], heard_.lines[1].at(0));
  EXPECT_NE(heard_.lines[0][0], heard_.lines[0][1]);
}

TEST_F(LocalLauncher, TellsRanksWhichOfThemHaveEnded) {
  const std::string wait_for_rank_zero =
      "mark=$MUSTER_ENDED_RANKS/$MASTER_PORT-0\n"
      "[ $RANK = 0 ] && { [ -e $mark ]; exit $((! $?)); }\n"
      "until [ -e $mark ]; do sleep 0.01; done";
  EXPECT_EQ(shell(wait_for_rank_zero, 2).exit_code, 0);
}

TEST_F(LocalLauncher, KeepsLogsOfMachinesThatShareAFolderApart) {
  const JobOutcome outcome =
      launchers().at("local").run({.argv = {"sh", "-c", "echo $TORCHELASTIC_RUN_ID"},
                                   .nnodes = 2,
                                   .node_rank = 1,
                                   .master_port = 1,
                                   .run_id = "test",
                                   .log_dir = folder_,
                                   .forward_signals = false},
                                  heard_);
  EXPECT_EQ(outcome.log_folder, folder_ / "test-node-1");
  EXPECT_THAT(heard_.lines[1], ElementsAre("test"));
}

TEST_F(LocalLauncher, RefusesAProgramThatIsNotThere) {
  const Error error = refusal({.argv = {"muster-no-such-program"}, .log_dir = folder_});
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("program not found: muster-no-such-program"));
}

TEST_F(LocalLauncher, RefusesAFileThatIsNotExecutable) {
  std::ofstream(folder_ / "plain") << "text";
  const Error error = refusal({.argv = {(folder_ / "plain").string()}, .log_dir = folder_});
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("it is not executable\nhint: chmod +x"));
}

TEST_F(LocalLauncher, SaysWhatIsWrongWithAScriptWithoutInterpreter) {
  const fs::path script = folder_ / "script";
  std::ofstream(script) << "echo hi\n";
  fs::permissions(script, fs::perms::owner_all);
  Error error = refusal({.argv = {script.string()},
                         .nproc_per_node = 3,
                         .log_dir = folder_,
                         .forward_signals = false});
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("a script needs a first line such as #!/bin/sh"));
  std::ofstream(script) << "#!/no/such/interpreter\n";
  error = refusal({.argv = {script.string()},
                   .nproc_per_node = 3,
                   .log_dir = folder_,
                   .forward_signals = false});
  EXPECT_THAT(error.what(), HasSubstr("its interpreter"));
}

TEST_F(LocalLauncher, RefusesALogFolderThatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "x";
  const Error error = refusal({.argv = {"true"}, .log_dir = folder_ / "file"});
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("cannot create the log folder"));
}

TEST_F(LocalLauncher, GoesOnWithoutALogThatCannotBeMade) {
  // Where the second attempt would have its log, the first one puts a folder.
  const std::string script = concat("[ $TORCHELASTIC_RESTART_COUNT = 1 ] || { mkdir -p ",
                                    folder_.string(),
                                    "/test/attempt_1/0/stdout.log; exit 1; }; echo one; echo two");
  const JobOutcome outcome = launchers().at("local").run({.argv = {"sh", "-c", script},
                                                          .run_id = "test",
                                                          .max_restarts = 1,
                                                          .log_dir = folder_,
                                                          .forward_signals = false},
                                                         heard_);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(heard_.lines[0], ElementsAre("one", "two"));
  EXPECT_THAT(
      heard_.notes,
      ::testing::Contains(HasSubstr("Is a directory (EISDIR); the job goes on without this log")));
}

TEST_F(LocalLauncher, WritesLogsThatOnlyItsUserCanRead) {
  shell("echo secret");
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "test/attempt_0/0/stdout.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(LocalLauncher, FollowsNoLinkThatSomebodyPutInPlaceOfALog) {
  std::ofstream(folder_ / "precious") << "old";
  fs::create_symlink(folder_ / "precious", folder_ / "stdout.log");
  LogFile file(folder_ / "stdout.log");
  EXPECT_THAT(file.write("one"), HasSubstr("the job goes on without this log"));
  EXPECT_EQ(read_file(folder_ / "precious"), "old");
}

TEST_F(LocalLauncher, TakesNoLinkForTheFolderOfItsRun) {
  fs::create_directory(folder_ / "theirs");
  fs::create_directory_symlink(folder_ / "theirs", folder_ / "test");
  EXPECT_EQ(shell("echo one").log_folder, folder_ / "test-2");
  EXPECT_TRUE(fs::is_empty(folder_ / "theirs"));
}

TEST(LogFile, SaysOnceThatTheDiskIsFull) {
  LogFile file("/dev/full");
  EXPECT_THAT(file.write("one"),
              HasSubstr("No space left on device (ENOSPC); the job goes on without this log"));
  EXPECT_EQ(file.write("two"), "");
}

TEST_F(LocalLauncher, TakesAPrivateFolderOnlyIfItIsOne) {
  const fs::path mine = folder_ / "mine";
  EXPECT_EQ(private_folder(mine), mine);
  EXPECT_EQ(private_folder(mine), mine);
  const auto replaced = [&](const fs::path& path) {
    const fs::path taken = private_folder(path);
    struct stat info {};
    EXPECT_EQ(::lstat(taken.c_str(), &info), 0);
    EXPECT_TRUE(S_ISDIR(info.st_mode));
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    return taken != path && taken.string().starts_with(path.string());
  };
  fs::permissions(mine, fs::perms(0755));
  EXPECT_TRUE(replaced(mine)) << "others may look into it";
  fs::create_directory_symlink(mine, folder_ / "link");
  EXPECT_TRUE(replaced(folder_ / "link"));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_TRUE(replaced(folder_ / "file"));
  if (::geteuid() != 0) {
    // Root's, and no other name beside it can be made.
    EXPECT_THROW(private_folder("/usr"), Error);
    return;
  }
  fs::create_directory(folder_ / "theirs");
  fs::permissions(folder_ / "theirs", fs::perms(0700));
  ASSERT_EQ(::chown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  EXPECT_TRUE(replaced(folder_ / "theirs"));
}

/// Whether a socket of this process is bound to it. One that it has let go, another process may have
/// taken.
bool has_socket_at(int64_t port) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const int fd = static_cast<int>(to_int(entry.path().filename().string()).value_or(-1));
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    const bool has_port = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    // The port sits at the same place in both address types.
    if (has_port && ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port) == port)
      return true;
  }
  return false;
}

// The launcher is this process.
TEST_F(LocalLauncher, HoldsTheFirstPortOfAJobAndLetsThoseAfterItGo) {
  std::vector<bool> held;
  struct Watch : Heard {
    explicit Watch(std::vector<bool>& found) : held(found) {}
    void on_line(int64_t, Stream, std::string_view line) override {
      held.push_back(has_socket_at(to_int(line).value_or(0)));
    }
    std::vector<bool>& held;
  } watch(held);
  launchers().at("local").run({.argv = {"sh", "-c", "echo $MASTER_PORT; exit 98"},
                               .run_id = "test",
                               .log_dir = folder_,
                               .forward_signals = false},
                              watch);
  EXPECT_THAT(held, ElementsAre(true, false, false, false));
}

TEST(FindProgram, LooksThroughPathInOrder) {
  EXPECT_EQ(find_program("sh", "/nowhere:/bin:/usr/bin"), "/bin/sh");
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
  EXPECT_THROW(find_program("/bin", "/bin"), Error);
  EXPECT_THROW(find_program("sh", "/nowhere"), Error);
}

TEST(FindProgram, TellsHowToStartAPythonScript) {
  try {
    find_program("train.py", "/nowhere");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("python3 train.py"));
  }
}

TEST_F(LocalLauncher, PrunesOldRunsButNoneInUseAndNoStranger) {
  const LogFolder in_use(folder_, "20200101-000000-1-0");
  fs::create_directories(folder_ / "20200102-000000-1-0-node-1");  // an earlier version's: no mark
  for (const char* name : {"named", "named", "20200103-000000-1-0"}) LogFolder(folder_, name);
  fs::create_directories(folder_ / "keep-me/attempt_0");
  auto time = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const char* name : {"20200101-000000-1-0",
                           "20200102-000000-1-0-node-1",
                           "named",
                           "keep-me",
                           "20200103-000000-1-0",
                           "named-2"})
    fs::last_write_time(folder_ / name, time += std::chrono::hours(1));
  prune_runs(folder_, 2);
  EXPECT_TRUE(fs::exists(folder_ / "20200101-000000-1-0"));
  EXPECT_FALSE(fs::exists(folder_ / "20200102-000000-1-0-node-1"));
  EXPECT_FALSE(fs::exists(folder_ / "named"));
  EXPECT_TRUE(fs::exists(folder_ / "20200103-000000-1-0"));
  EXPECT_TRUE(fs::exists(folder_ / "named-2"));
  EXPECT_TRUE(fs::exists(folder_ / "keep-me"));
}

}  // namespace
}  // namespace muster::launch
