#include "muster/launch/process/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::launch {
namespace {

constexpr int kMostProcesses = 16384;
constexpr int kPidLimit = 1 << 22;  // the kernel's

struct Process {
  pid_t pid;
  pid_t parent;
};

// Not on the stack, which may be a small one. Used by one thread of a forked copy, or by the one
// that ends a program.
Process found[kMostProcesses];
int found_count = 0;
// A bit for each number whose process was sent a signal from here.
uint64_t told[kPidLimit / 64];

bool was_told(pid_t pid) { return (told[pid / 64] >> (pid % 64) & 1) != 0; }

/// A path in /proc, put together without the heap.
class ProcPath {
 public:
  explicit ProcPath(pid_t pid) {
    text("/proc/");
    number(pid);
  }
  ProcPath& text(const char* part) {
    while (*part != '\0' && size_ + 1 < sizeof buffer_) buffer_[size_++] = *part++;
    buffer_[size_] = '\0';
    return *this;
  }
  ProcPath& number(unsigned long value) {
    char digits[24];
    int at = sizeof digits - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
    } while ((value /= 10) != 0);
    return text(digits + at);
  }
  int open(int flags) const { return ::open(buffer_, flags | O_RDONLY | O_CLOEXEC); }

 private:
  char buffer_[96];
  size_t size_ = 0;
};

void add(pid_t pid, pid_t parent) {
  if (pid > 0 && pid < kPidLimit && found_count < kMostProcesses)
    found[found_count++] = {pid, parent};
}

/// Adds the children that the kernel lists for one thread: "12 34 56 ".
void add_children_of_thread(pid_t pid, unsigned long thread) {
  const int fd = ProcPath(pid).text("/task/").number(thread).text("/children").open(0);
  if (fd < 0) return;
  char buffer[4096];
  pid_t child = 0;
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        child = child * 10 + (buffer[i] - '0');
      } else {
        add(child, pid);
        child = 0;
      }
    }
  }
  add(child, pid);
  ::close(fd);
}

void add_children(pid_t pid) {
  const int folder = ProcPath(pid).text("/task").open(O_DIRECTORY);
  if (folder < 0) return;
  struct Entry {  // the kernel's linux_dirent64
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];  // and more
  };
  alignas(Entry) char buffer[4096];
  for (long got; (got = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < got;) {
      const Entry* entry = reinterpret_cast<const Entry*>(buffer + at);
      if (entry->name[0] != '.') add_children_of_thread(pid, ::strtoul(entry->name, nullptr, 10));
      at += entry->size;
    }
  }
  ::close(folder);
}

/// The parent that /proc/<pid>/stat names, or 0. The line is "pid (name, which may hold anything)
/// state parent …".
pid_t parent_of(pid_t pid) {
  const int fd = ProcPath(pid).text("/stat").open(0);
  if (fd < 0) return 0;
  char buffer[512];
  const ssize_t got = ::read(fd, buffer, sizeof buffer - 1);
  ::close(fd);
  if (got <= 0) return 0;
  buffer[got] = '\0';
  const char* end = ::strrchr(buffer, ')');
  return end != nullptr && end + 4 < buffer + got ? ::atoi(end + 4) : 0;
}

/// Signals the process unless its number has gone to a stranger since it was found. The descriptor
/// pins the process, and a process that was ours then still has the parent it had, or has become
/// our own child.
void signal_if_still_ours(const Process& process, int signal) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0 && errno != ENOSYS) return;
  const pid_t parent = parent_of(process.pid);
  if (parent == process.parent || parent == ::getpid()) {
    if (fd >= 0) {
      ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
    } else {
      ::kill(process.pid, signal);
    }
    told[process.pid / 64] |= uint64_t{1} << (process.pid % 64);
  }
  if (fd >= 0) ::close(fd);
}

}  // namespace

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

int signal_descendants(int signal) {
  found_count = 0;
  add_children(::getpid());
  for (int i = 0; i < found_count; ++i) add_children(found[i].pid);
  for (int i = 0; i < found_count; ++i) signal_if_still_ours(found[i], signal);
  return found_count;
}

void signal_new_orphans(int signal) {
  found_count = 0;
  add_children(::getpid());
  for (int i = 0; i < found_count; ++i) {
    if (!was_told(found[i].pid)) signal_if_still_ours(found[i], signal);
  }
}

void kill_other_children(std::span<const pid_t> known) {
  found_count = 0;
  add_children(::getpid());
  for (int i = 0; i < found_count; ++i) {
    bool is_known = false;
    for (const pid_t pid : known) is_known = is_known || pid == found[i].pid;
    if (!is_known) signal_if_still_ours(found[i], SIGKILL);
  }
}

void kill_descendants() {
  // Each death can bring orphans to light, so look again after every one. A process that was forked
  // between look and kill is there at the next look: its parent's death, which wakes us, comes
  // after its adoption.
  for (;;) {
    signal_descendants(SIGKILL);
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WEXITED) != 0) {
      if (errno == ECHILD) return;
    }
    while (info.si_pid = 0, ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
    }
  }
}

}  // namespace muster::launch
