// A `muster` process under test: started with pipes, watched through a pidfd, and searched for
// anything it leaves behind.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "muster/base/file.h"

namespace muster::testing_process {

/// How a process ended: exactly one of the two is set.
struct Ended {
  int code = -1;
  int signal = 0;
};

struct LaunchOptions {
  std::vector<std::string> environment;  ///< "NAME=value", beside the inherited ones
  int stdout_fd = -1;                    ///< instead of a pipe
  int stdin_fd = -1;                     ///< instead of /dev/null
};

class Launched {
 public:
  /// Runs build/bin/muster with these words.
  explicit Launched(const std::vector<std::string>& args, const LaunchOptions& options = {});
  /// Kills whatever is left, also a launcher that has not come to its exec.
  ~Launched();
  Launched(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Reads until `text` was seen `times` times on stdout and stderr together; false at the end of
  /// both, or in time.
  bool wait_for(std::string_view text, int times = 1);

  /// Reads everything and waits for the end. Fails the test and kills if that takes too long.
  Ended wait(std::chrono::milliseconds limit = std::chrono::seconds(20));

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

  /// All living processes that carry this launch's token in their environment, itself included.
  std::vector<pid_t> processes() const;

  /// Waits until none of them is left, woken by each death. False if some are left after `limit`.
  bool nothing_left(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

  /// Its processes whose parent is `parent`: the warden is the child of the launcher, the ranks are
  /// the warden's.
  std::vector<pid_t> children_of(pid_t parent) const;
  pid_t warden() const;
  std::vector<pid_t> ranks() const;

  /// A folder of this launch, removed at the end; the default log folder lies in it.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  bool read_once(std::chrono::steady_clock::time_point until);

  std::string token_;
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  UniqueFd pidfd_, out_fd_, err_fd_;
  std::optional<Ended> ended_;
  std::string out_, err_;
};

/// Whether a process runs; one that has ended and was not waited for does not.
bool is_alive(pid_t pid);

/// All that a rank printed to stderr, from its log: what several say alike is shown once.
std::string stderr_of(const Launched& job, int rank);

/// The path of muster_rank_program.
std::string rank_program();

/// {"run", flags…, "--", rank program, modes}.
std::vector<std::string> run_line(std::vector<std::string> flags, const std::string& modes);

}  // namespace muster::testing_process
