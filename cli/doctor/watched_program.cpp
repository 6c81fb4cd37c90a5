#include "cli/doctor/watched_program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/cgroup.h"
#include "muster/base/error.h"
#include "muster/base/file.h"

extern char** environ;

namespace muster::cli {
namespace {

constexpr size_t kPipeBytes = 1 << 16;
constexpr int kShellSignalBase = 128;

std::atomic<pid_t> watched{0};

void pass_on(int signal) {
  const pid_t program = watched;
  if (program > 0) ::kill(program, signal);
}

/// While it lives, the terminal's signals are the program's alone, and a launcher's are passed on.
class SignalsForProgram {
 public:
  SignalsForProgram() {
    set(SIGINT, SIG_IGN);
    set(SIGQUIT, SIG_IGN);
    set(SIGTERM, &pass_on);
    set(SIGHUP, &pass_on);
  }
  ~SignalsForProgram() {
    for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
  }
  SignalsForProgram(const SignalsForProgram&) = delete;

 private:
  void set(int signal, void (*handler)(int)) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  }
  std::vector<std::pair<int, struct sigaction>> before_;
};

struct PipeEnds {
  UniqueFd read, write;
};

PipeEnds make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw environment_error({.refused = "cannot make a pipe", .rule = errno_text(errno)});
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

pid_t start(const std::vector<std::string>& argv, int out, int err) {
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, argv[0].c_str(), &actions, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return child;
  throw usage_error({.refused = "cannot start " + argv[0],
                     .rule = errno_text(error),
                     .hint = "a program is named by its path, or found in PATH"});
}

/// Reads once from `from`, writes it to `to`; false at the end.
bool pass_bytes(UniqueFd& from, int to, diagnose::LogReader& reader) {
  std::array<char, kPipeBytes> bytes{};
  const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (count <= 0) {
    from.reset();
    return false;
  }
  const std::string_view text(bytes.data(), static_cast<size_t>(count));
  reader.read(text);
  // Nobody may read any more: the program's end is looked for all the same.
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(to, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// What has been written so far, once the program has ended; others may still hold the pipe.
void drain(UniqueFd& from, int to, diagnose::LogReader& reader) {
  pollfd ready{.fd = from.get(), .events = POLLIN, .revents = 0};
  while (from && ::poll(&ready, 1, 0) > 0 && pass_bytes(from, to, reader)) {
  }
}

}  // namespace

diagnose::ProgramEnd watch_program(const std::vector<std::string>& argv,
                                   diagnose::LogReader& reader) {
  const auto kills_before = oom_kills();
  PipeEnds out = make_pipe(), err = make_pipe();
  const SignalsForProgram signals;
  reader.begin("the program");
  const pid_t child = start(argv, out.write.get(), err.write.get());
  watched = child;
  out.write.reset();
  err.write.reset();
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  while (out.read || err.read) {
    std::array<pollfd, 3> ready{{{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                                 {.fd = err.read.get(), .events = POLLIN, .revents = 0},
                                 {.fd = ended.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) break;
    if (ready[0].revents != 0) pass_bytes(out.read, STDOUT_FILENO, reader);
    if (ready[1].revents != 0) pass_bytes(err.read, STDERR_FILENO, reader);
    if (ready[2].revents != 0) break;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  watched = 0;
  drain(out.read, STDOUT_FILENO, reader);
  drain(err.read, STDERR_FILENO, reader);
  reader.end();

  diagnose::ProgramEnd end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  const auto kills_after = oom_kills();
  if (kills_before && kills_after)
    end.oom_kills = std::max<int64_t>(0, *kills_after - *kills_before);
  struct rusage usage {};
  if (::getrusage(RUSAGE_CHILDREN, &usage) == 0) end.most_resident_bytes = usage.ru_maxrss << 10;
  reader.program_ended(end);
  return end;
}

int shell_code(const diagnose::ProgramEnd& end) {
  return end.signal != 0 ? kShellSignalBase + end.signal : end.exit_code;
}

}  // namespace muster::cli
