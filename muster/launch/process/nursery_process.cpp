#include "muster/launch/process/nursery_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/launch/process/process_tree.h"
#include "muster/launch/process/warden.h"
#include "muster/launch/process/warden_process.h"

namespace muster::launch {
namespace {

// Descriptors that come in must lie above those that a rank gets.
constexpr int kFirstFreeFd = 10;
constexpr size_t kMostWardens = 16384;

// Of the forked copy, which has one thread.
pid_t wardens[kMostWardens];
size_t warden_count = 0;

bool forget(pid_t pid) {
  for (size_t i = 0; i < warden_count; ++i) {
    if (wardens[i] != pid) continue;
    wardens[i] = wardens[--warden_count];
    return true;
  }
  return false;
}

/// All but the control socket is closed, the owner's other sockets above all, and the low numbers
/// are taken.
int become_nursery(int control) {
  const int mine = ::fcntl(control, F_DUPFD_CLOEXEC, kFirstFreeFd);
  ::close_range(0, static_cast<unsigned>(mine) - 1, 0);
  ::close_range(static_cast<unsigned>(mine) + 1, ~0U, 0);
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd < kFirstFreeFd);
  if (fd >= 0) ::close(fd);
  return mine;
}

/// Turns offsets into pointers, in place: both have eight bytes.
char* const* pointers(char* base, uint64_t array) {
  static_assert(sizeof(char*) == sizeof(uint64_t));
  auto* offsets = reinterpret_cast<uint64_t*>(base + array);
  for (uint64_t* at = offsets; *at != 0; ++at) {
    char* const pointer = base + *at;
    ::memcpy(at, &pointer, sizeof pointer);
  }
  return reinterpret_cast<char* const*>(offsets);
}

/// Tells the owner, in the warden's name, that there is none.
void tell_failure(const int (&fds)[kNurseryFds], int errno_value) {
  const WardenReport reports[] = {
      {.kind = WardenReport::kNotStarted, .status = errno_value == 0 ? EIO : errno_value},
      {.kind = WardenReport::kAllGone}};
  for (const WardenReport& report : reports)
    ::send(fds[kWardenControlFd], &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// In the new process: reads the plan and becomes the warden.
[[noreturn]] void become_warden(const int (&fds)[kNurseryFds]) {
  struct stat info {};
  ::fstat(fds[kPlanFd], &info);
  void* memory = ::mmap(nullptr,
                        static_cast<size_t>(info.st_size),
                        PROT_READ | PROT_WRITE,
                        MAP_PRIVATE,
                        fds[kPlanFd],
                        0);
  if (memory == MAP_FAILED) {
    tell_failure(fds, errno);
    ::_exit(1);
  }
  char* base = static_cast<char*>(memory);
  const auto* plan = reinterpret_cast<const NurseryPlan*>(base);
  WardenRank rank{.environment = pointers(base, plan->environment),
                  .folder = plan->folder == 0 ? nullptr : base + plan->folder,
                  .fds = {fds[kInFd], fds[kOutFd], fds[kErrFd], -1}};
  run_warden({.program = base + plan->program,
              .arguments = pointers(base, plan->arguments),
              .ranks = {&rank, 1},
              .control_fd = fds[kWardenControlFd],
              .rank_signal_mask = &plan->rank_signal_mask});
}

void start_warden(const int (&fds)[kNurseryFds]) {
  if (warden_count == kMostWardens) return tell_failure(fds, EAGAIN);
  const pid_t pid = ::fork();
  if (pid == 0) become_warden(fds);
  if (pid < 0) return tell_failure(fds, errno);
  wardens[warden_count++] = pid;
}

/// Takes one order. False if the owner is gone.
bool serve(int control) {
  char byte = 0;
  iovec part{&byte, 1};
  int fds[kNurseryFds];
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  const ssize_t got = ::recvmsg(control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return true;  // out of descriptors
  const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  ::memcpy(fds, CMSG_DATA(head), count * sizeof(int));
  if (count == kNurseryFds) start_warden(fds);
  for (size_t i = 0; i < count; ++i) ::close(fds[i]);
  return true;
}

/// Takes in the dead. False if no child is left. `strangers` becomes true if there may be children
/// that are no wardens: a warden was killed, or one of them died.
bool reap(bool& strangers) {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0) return errno != ECHILD;
    if (pid == 0) return true;
    if (!forget(pid) || WIFSIGNALED(status)) strangers = true;
  }
}

void remove_folder(const char* folder) {
  if (folder[0] == '\0') return;
  const int fd = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  alignas(dirent64) char buffer[4096];
  for (long got; (got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      ::unlinkat(fd, entry->d_name, 0);  // folders stay: not for "." and ".."
      at += entry->d_reclen;
    }
  }
  ::close(fd);
  ::rmdir(folder);
}

}  // namespace

void run_nursery(int control_fd, const char* folder) {
  drop_handlers();
  ::setsid();
  ::prctl(PR_SET_NAME, "muster-nursery", 0, 0, 0);
  adopt_orphans();
  const int control = become_nursery(control_fd);
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  const int deaths = ::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  bool owned = true;
  for (;;) {
    bool strangers = false;
    if (!reap(strangers) && !owned) break;
    if (strangers) kill_other_children({wardens, warden_count});
    pollfd waits[2] = {{deaths, POLLIN, 0}, {owned ? control : -1, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    signalfd_siginfo news;
    while (::read(deaths, &news, sizeof news) > 0) {
    }
    if (waits[1].revents != 0) owned = serve(control);
  }
  remove_folder(folder);
  ::_exit(0);
}

}  // namespace muster::launch
