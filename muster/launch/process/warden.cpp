#include "muster/launch/process/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/launch/io/pipe.h"
#include "muster/launch/process/warden_process.h"

namespace muster::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Warden::Warden(const std::filesystem::path& program,
               const std::vector<std::string>& argv,
               std::span<const RankStart> ranks,
               const void* rank_signal_mask) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw environment_error({.refused = "cannot make a socket", .rule = errno_text(errno)});
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  control_ = raised(std::move(ours));
  theirs = raised(std::move(theirs));

  const std::vector<char*> arguments = pointers(argv);
  std::vector<std::vector<char*>> environments;
  for (const RankStart& rank : ranks) environments.push_back(pointers(rank.environment));
  std::vector<WardenRank> prepared;
  for (size_t i = 0; i < ranks.size(); ++i) {
    prepared.push_back(
        {.environment = environments[i].data(),
         .folder = ranks[i].folder.empty() ? nullptr : ranks[i].folder.c_str(),
         .fds = {ranks[i].stdin_fd, ranks[i].stdout_fd, ranks[i].stderr_fd, ranks[i].progress_fd}});
  }
  const WardenPlan plan{.program = program.c_str(),
                        .arguments = arguments.data(),
                        .ranks = prepared,
                        .control_fd = theirs.get(),
                        .rank_signal_mask = static_cast<const sigset_t*>(rank_signal_mask)};

  // No signal may run a handler of the launcher in the copy, so they are blocked across the fork.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) run_warden(plan);
  const int fork_errno = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) {
    throw environment_error({.refused = "cannot start a process",
                             .rule = errno_text(fork_errno),
                             .hint = "see `ulimit -u` and the free memory"});
  }
}

Warden::~Warden() { control_.reset(); }

Warden::Read Warden::read(WardenReport& report) {
  for (;;) {
    const ssize_t got = ::recv(control_.get(), &report, sizeof report, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof report)) return Read::kReport;
    // A warden that ends without having read our last order resets the socket; what it said before
    // is still there.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::kNothing;
    return Read::kDead;
  }
}

void Warden::order(WardenOrder order) {
  ::send(control_.get(), &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
  wake();
}

void Warden::wake() const {
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

void Warden::reap() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  while (pid_ > 0 && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace muster::launch
