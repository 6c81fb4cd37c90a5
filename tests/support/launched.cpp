#include "tests/support/launched.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/text.h"

#include "tests/support/paths.h"
#include "tests/support/slurp.h"

namespace muster::testing_process {
namespace {

using test::slurp;
using Clock = std::chrono::steady_clock;

int ms_until(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

/// The parent of a living process; 0 for one that is gone or a zombie.
pid_t parent_of(pid_t pid) {
  const std::string stat = slurp(concat("/proc/", pid, "/stat"));
  const size_t at = stat.rfind(')');
  if (at == std::string::npos || at + 4 > stat.size() || stat[at + 2] == 'Z') return 0;
  return std::atoi(stat.c_str() + at + 4);
}

int pidfd_of(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

bool is_alive(pid_t pid) { return parent_of(pid) != 0; }

Launched::Launched(const std::vector<std::string>& args, const LaunchOptions& options) {
  static std::atomic<int> counter{0};
  token_ = concat("MUSTER_TEST_TOKEN=",
                  ::getpid(),
                  '-',
                  Clock::now().time_since_epoch().count(),
                  '-',
                  counter++,
                  ';');
  std::string name = (std::filesystem::temp_directory_path() / "muster-process.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  folder_ = name;

  std::vector<std::string> words{test::program_path("muster")};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<std::string> variables = options.environment;
  variables.push_back(token_);
  variables.push_back("XDG_STATE_HOME=" + name);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("XDG_STATE_HOME="))
      variables.emplace_back(*variable);
  }
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(options.stdin_fd >= 0 ? options.stdin_fd : null, 0);
    ::dup2(options.stdout_fd >= 0 ? options.stdout_fd : out[1], 1);
    ::dup2(err[1], 2);
    ::execve(argv[0], argv.data(), envp.data());
    _exit(126);
  }
  ::close(null);
  ::close(out[1]);
  ::close(err[1]);
  out_fd_.reset(out[0]);
  err_fd_.reset(err[0]);
  pidfd_.reset(pidfd_of(pid_));
}

Launched::~Launched() {
  if (!ended_) {  // by its number: before its exec it does not carry the token
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const auto until = Clock::now() + std::chrono::seconds(10);
  // One that is dying has given its environment back, token and all, before it is gone.
  std::set<pid_t> killed;
  const auto left = [&] {
    std::erase_if(killed, [](pid_t pid) { return !is_alive(pid); });
    for (const pid_t pid : processes()) killed.insert(pid);
    return !killed.empty();
  };
  while (left() && Clock::now() < until) {
    for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
    ::poll(nullptr, 0, 1);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Launched::signal(int number) const { ::kill(pid_, number); }

bool Launched::read_once(Clock::time_point until) {
  pollfd waits[2] = {{out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}};
  if (!out_fd_ && !err_fd_) return false;
  if (::poll(waits, 2, ms_until(until)) <= 0) return false;
  char buffer[1 << 16];
  for (int i = 0; i < 2; ++i) {
    if (waits[i].revents == 0) continue;
    UniqueFd& fd = i == 0 ? out_fd_ : err_fd_;
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got > 0) (i == 0 ? out_ : err_).append(buffer, static_cast<size_t>(got));
    if (got == 0) fd.reset();
  }
  return true;
}

bool Launched::wait_for(std::string_view text, int times) {
  const auto until = Clock::now() + std::chrono::seconds(20);
  const auto seen = [&] {
    int count = 0;
    for (const std::string* from : {&out_, &err_}) {
      for (size_t at = from->find(text); at != std::string::npos; at = from->find(text, at + 1))
        ++count;
    }
    return count;
  };
  while (seen() < times) {
    if (!read_once(until)) return false;
  }
  return true;
}

Ended Launched::wait(std::chrono::milliseconds limit) {
  if (ended_) return *ended_;
  const auto until = Clock::now() + limit;
  while (read_once(until)) {
  }
  pollfd end{pidfd_.get(), POLLIN, 0};
  if (::poll(&end, 1, ms_until(until)) <= 0) {
    ADD_FAILURE() << "the launcher did not end within " << limit.count() << " ms\n" << err_;
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ended_ = WIFEXITED(status) ? Ended{WEXITSTATUS(status), 0} : Ended{-1, WTERMSIG(status)};
  return *ended_;
}

std::vector<pid_t> Launched::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = to_int(entry.path().filename().string());
    if (!pid || parent_of(static_cast<pid_t>(*pid)) == 0) continue;
    // A process between exec and its first instruction shows an empty environment; its parent has
    // the token then.
    if (slurp(concat("/proc/", *pid, "/environ")).find(token_) != std::string::npos) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

bool Launched::nothing_left(std::chrono::milliseconds limit) const {
  const auto until = Clock::now() + limit;
  for (;;) {
    const std::vector<pid_t> left = processes();
    if (left.empty()) return true;
    for (const pid_t pid : left) {
      const UniqueFd fd(pidfd_of(pid));
      pollfd death{fd.get(), POLLIN, 0};
      if (fd && ::poll(&death, 1, ms_until(until)) <= 0) {
        ADD_FAILURE() << "left behind: " << pid << " " << slurp(concat("/proc/", pid, "/cmdline"));
        return false;
      }
    }
  }
}

std::vector<pid_t> Launched::children_of(pid_t parent) const {
  std::vector<pid_t> found;
  for (const pid_t pid : processes()) {
    if (parent_of(pid) == parent) found.push_back(pid);
  }
  return found;
}

pid_t Launched::warden() const {
  const auto children = children_of(pid_);
  return children.empty() ? -1 : children.front();
}

std::vector<pid_t> Launched::ranks() const {
  const pid_t parent = warden();
  std::vector<pid_t> found;
  // Orphans are the warden's children too, but not leaders of a group that it made: they share a
  // rank's, or have a session.
  for (const pid_t pid : parent > 0 ? children_of(parent) : std::vector<pid_t>{}) {
    if (::getpgid(pid) == pid && ::getsid(pid) == ::getsid(parent)) found.push_back(pid);
  }
  return found;
}

std::string stderr_of(const Launched& job, int rank) {
  std::string all;
  for (const auto& run : std::filesystem::directory_iterator(job.folder() / "muster/logs"))
    all += read_file(run.path() / "attempt_0" / std::to_string(rank) / "stderr.log");
  return all;
}

std::string rank_program() { return test::program_path("muster_rank_program"); }

std::vector<std::string> run_line(std::vector<std::string> flags, const std::string& modes) {
  flags.insert(flags.begin(), "run");
  flags.insert(flags.end(), {"--", rank_program(), modes});
  return flags;
}

}  // namespace muster::testing_process
