#include "muster/distributed/call/without_sigpipe.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/distributed/process_group.h"

namespace muster::distributed {
namespace {

/// What errno says behind a write to a socket whose other end is closed.
int error_of_broken_write() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  ::close(ends[1]);
  const ssize_t written = ::write(ends[0], "x", 1);
  const int error = written < 0 ? errno : 0;
  ::close(ends[0]);
  return error;
}

TEST(WithoutSigpipe, ABrokenSocketIsAnErrorOfTheWriteAndNothingComesLater) {
  EXPECT_EXIT(
      {
        ::signal(SIGPIPE, SIG_DFL);
        {
          const WithoutSigpipe guard;
          const WithoutSigpipe again;  // of one that calls another
          if (error_of_broken_write() != EPIPE) ::_exit(1);
          int from_thread = 0;
          std::thread([&] { from_thread = error_of_broken_write(); }).join();
          if (from_thread != EPIPE) ::_exit(2);
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0),
      "");
}

TEST(WithoutSigpipe, OutsideItASignalIsWhatTheProgramSays) {
  EXPECT_EXIT(
      {
        ::signal(SIGPIPE, SIG_DFL);
        { const WithoutSigpipe guard; }
        error_of_broken_write();
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGPIPE),
      "");
}

TEST(WithoutSigpipe, GlooThreadsNeverEndTheProcessForALostPeer) {
  int seen = 0;
  ThreadWorld(2, std::chrono::minutes(1), "gloo").run([&](const ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 0) {
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name, line;
        std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
        if (name != "pt_gloo_runloop") continue;
        ++seen;
        std::ifstream status(task.path() / "status");
        while (std::getline(status, line)) {
          if (!line.starts_with("SigBlk:")) continue;
          const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
          EXPECT_NE(blocked & (uint64_t{1} << (SIGPIPE - 1)), 0u) << line;
        }
      }
    }
    group.barrier();
  });
  EXPECT_GE(seen, 2);
}

}  // namespace
}  // namespace muster::distributed
