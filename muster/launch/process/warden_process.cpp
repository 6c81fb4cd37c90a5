#include "muster/launch/process/warden_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/launch/io/pipe.h"
#include "muster/launch/process/process_tree.h"
#include "muster/launch/process/warden.h"

namespace muster::launch {
namespace {

// Where a rank that could not exec says so; closed by a successful exec.
constexpr int kExecReportFd = kProgressFd + 1;

void tell(const WardenPlan& plan, const WardenReport& report) {
  // A launcher that is gone shows as end-of-file at the next look.
  while (::send(plan.control_fd, &report, sizeof report, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

bool is_needed(const WardenPlan& plan, int fd) {
  if (fd == plan.control_fd) return true;
  for (const WardenRank& rank : plan.ranks) {
    for (const int mine : rank.fds) {
      if (fd == mine) return true;
    }
  }
  return false;
}

/// Closes all but the plan's descriptors: above all the launcher's end of this and of other
/// wardens' control sockets, whose end-of-file must mean that the launcher is dead, and its stdout,
/// which a reader may be waiting on.
void close_others(const WardenPlan& plan) {
  unsigned first = 0;
  int last_needed = plan.control_fd;
  for (const WardenRank& rank : plan.ranks) {
    for (const int fd : rank.fds) last_needed = fd > last_needed ? fd : last_needed;
  }
  for (int fd = 0; fd <= last_needed; ++fd) {
    if (!is_needed(plan, fd)) continue;
    if (static_cast<unsigned>(fd) > first) ::close_range(first, static_cast<unsigned>(fd) - 1, 0);
    first = static_cast<unsigned>(fd) + 1;
  }
  ::close_range(first, ~0U, 0);
}

/// The new process, from vfork to exec: it borrows the warden's memory, so it changes none.
[[noreturn]] void become_rank(const WardenPlan& plan,
                              const WardenRank& rank,
                              int report_fd,
                              int warden) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != warden) ::_exit(127);  // it died before the line above
  ::dup3(report_fd, kExecReportFd, O_CLOEXEC);
  for (int fd = 0; fd <= kProgressFd; ++fd) {
    if (rank.fds[fd] < 0 || ::dup2(rank.fds[fd], fd) < 0) ::close(fd);
  }
  ::close_range(kExecReportFd + 1, ~0U, 0);
  ::sigprocmask(SIG_SETMASK, plan.rank_signal_mask, nullptr);
  if (rank.folder == nullptr || ::chdir(rank.folder) == 0)
    ::execve(plan.program, plan.arguments, rank.environment);
  const int exec_errno = errno;
  [[maybe_unused]] const ssize_t put = ::write(kExecReportFd, &exec_errno, sizeof exec_errno);
  ::_exit(127);
}

/// 0, or the errno for which the rank could not be started.
int start(const WardenPlan& plan, WardenRank& rank, int warden) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return errno;
  // The pipe's ends are moved out of the way of the numbers that the rank's descriptors get.
  const int write_end = ::fcntl(report[1], F_DUPFD_CLOEXEC, kExecReportFd + 1);
  ::close(report[1]);
  // vfork, since it costs the same whatever the launcher's memory; see Note [No process is left]
  // for the parent.
  const pid_t pid = ::vfork();
  if (pid == 0) become_rank(plan, rank, write_end, warden);
  int failure = pid < 0 ? errno : 0;
  ::close(write_end);
  if (pid > 0) {
    while (::read(report[0], &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    rank.pid = pid;
    if (failure != 0) {
      rank.pid = -1;
      ::waitpid(pid, nullptr, 0);
    }
  }
  ::close(report[0]);
  return failure;
}

void start_all(const WardenPlan& plan) {
  const int self = ::getpid();
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    WardenRank& rank = plan.ranks[i];
    const int failure = start(plan, rank, self);
    tell(plan,
         {.kind = failure == 0 ? WardenReport::kStarted : WardenReport::kNotStarted,
          .rank = static_cast<int32_t>(i),
          .pid = rank.pid,
          .status = failure});
  }
  // From here on only the ranks hold the writing ends, so that the launcher sees them close.
  for (const WardenRank& rank : plan.ranks) {
    for (const int fd : rank.fds) ::close(fd);
  }
}

/// Takes in all that have died, and whom a signal has stopped or continued. False if no child is left.
bool reap(const WardenPlan& plan, int32_t batch) {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid == 0) return true;
    if (pid < 0) return errno != ECHILD;
    const auto kind = WIFSTOPPED(status)     ? WardenReport::kStopped
                      : WIFCONTINUED(status) ? WardenReport::kContinued
                                             : WardenReport::kEnded;
    for (size_t i = 0; i < plan.ranks.size(); ++i) {
      if (plan.ranks[i].pid != pid) continue;
      if (kind == WardenReport::kEnded) plan.ranks[i].pid = -1;
      tell(plan,
           {.kind = kind,
            .rank = static_cast<int32_t>(i),
            .pid = pid,
            .status = status,
            .batch = batch});
    }
  }
}

void obey(const WardenPlan& plan, const WardenOrder& order) {
  if (order.kind == WardenOrder::kSignalEverybody) signal_descendants(order.signal);
  if (order.kind != WardenOrder::kSignalRanks) return;
  for (const WardenRank& rank : plan.ranks) {
    if (rank.pid <= 0) continue;  // its number may belong to a stranger by now
    // A rank may have left its group; its own number is still its own.
    if (::kill(-rank.pid, order.signal) != 0) ::kill(rank.pid, order.signal);
    // A stopped rank would not see it.
    if (::kill(-rank.pid, SIGCONT) != 0) ::kill(rank.pid, SIGCONT);
  }
}

}  // namespace

void drop_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
}

void run_warden(const WardenPlan& plan) {
  drop_handlers();
  ::setsid();
  ::prctl(PR_SET_NAME, "muster-warden", 0, 0, 0);
  adopt_orphans();
  close_others(plan);
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  const int deaths = ::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  start_all(plan);

  bool killing = false;
  int everybodys_signal = 0;  // 0: none yet
  for (int32_t batch = 0;; ++batch) {
    if (!reap(plan, batch)) {
      tell(plan, {.kind = WardenReport::kAllGone});
      ::_exit(0);
    }
    if (killing) {
      signal_descendants(SIGKILL);
    } else if (everybodys_signal != 0) {
      signal_new_orphans(everybodys_signal);
    }
    pollfd waits[2] = {{plan.control_fd, POLLIN, 0}, {deaths, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    signalfd_siginfo news;
    while (::read(deaths, &news, sizeof news) > 0) {
    }
    WardenOrder order;
    const ssize_t got = ::recv(plan.control_fd, &order, sizeof order, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof order)) {
      killing = killing || order.kind == WardenOrder::kKill;
      if (order.kind == WardenOrder::kSignalEverybody) everybodys_signal = order.signal;
      obey(plan, order);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      kill_descendants();  // the launcher is dead
      ::_exit(0);
    }
  }
}

}  // namespace muster::launch
