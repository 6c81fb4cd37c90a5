#include "muster/launch/process/nursery.h"

#include <cstring>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/launch/io/pipe.h"
#include "muster/launch/process/nursery_process.h"

namespace muster::launch {
namespace {

// For the nursery's end after the last warden's.
constexpr int kEndMs = 5000;

Error failed(const char* what, int errno_value) {
  return environment_error({.refused = what,
                            .rule = errno_text(errno_value),
                            .hint = "see `ulimit -n`, `ulimit -u` and the free memory"});
}

/// The bytes of a NurseryPlan, put together from back to front of what refers to what.
class PlanWriter {
 public:
  PlanWriter() : bytes_(sizeof(NurseryPlan), '\0') {}

  uint64_t text(const std::string& value) {
    const uint64_t at = bytes_.size();
    bytes_.append(value.c_str(), value.size() + 1);
    return at;
  }

  uint64_t texts(const std::vector<std::string>& values) {
    std::vector<uint64_t> offsets;
    for (const std::string& value : values) offsets.push_back(text(value));
    offsets.push_back(0);
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    const uint64_t at = bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof(uint64_t));
    return at;
  }

  UniqueFd to_file(NurseryPlan plan) {
    plan.bytes = bytes_.size();
    std::memcpy(bytes_.data(), &plan, sizeof plan);
    UniqueFd fd(::memfd_create("muster-plan", MFD_CLOEXEC));
    if (!fd) throw failed("cannot make a file in memory", errno);
    write_all(fd.get(), bytes_, "(memory)");
    return fd;
  }

 private:
  std::string bytes_;
};

/// False if the nursery is gone. Throws an environment error for anything else.
bool send_fds(int socket, const int (&fds)[kNurseryFds]) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(head), fds, sizeof fds);
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return false;
    if (errno != EINTR) throw failed("cannot start a process", errno);
  }
  return true;
}

}  // namespace

Nursery::Nursery(const std::filesystem::path& folder) : folder_(folder.string()) { make(); }

void Nursery::make() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw failed("cannot make a socket", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  control_ = raised(std::move(ours));
  theirs = raised(std::move(theirs));
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) run_nursery(theirs.get(), folder_.c_str());
  const int fork_errno = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw failed("cannot start a process", fork_errno);
}

// A nursery that somebody has stopped is sent on, here and at each start: else nothing would begin.
Nursery::~Nursery() {
  control_.reset();
  if (pid_ > 0) ::kill(pid_, SIGCONT);
  const UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd wait{end.get(), POLLIN, 0};
  while (end && ::poll(&wait, 1, kEndMs) < 0 && errno == EINTR) {
  }
  ::waitpid(pid_, nullptr, WNOHANG);
}

Warden Nursery::start(const std::filesystem::path& program,
                      const std::vector<std::string>& argv,
                      const RankStart& start,
                      const void* rank_signal_mask) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw failed("cannot make a socket", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  PlanWriter writer;
  NurseryPlan plan;
  plan.program = writer.text(program.string());
  plan.folder = start.folder.empty() ? 0 : writer.text(start.folder);
  plan.arguments = writer.texts(argv);
  plan.environment = writer.texts(start.environment);
  plan.rank_signal_mask = *static_cast<const sigset_t*>(rank_signal_mask);
  const UniqueFd file = writer.to_file(plan);
  const int fds[kNurseryFds] = {
      file.get(), theirs.get(), start.stdin_fd, start.stdout_fd, start.stderr_fd};
  if (!send_fds(control_.get(), fds)) {
    // Somebody has killed it. Its wardens need it for nothing.
    ::waitpid(pid_, nullptr, WNOHANG);
    make();
    if (!send_fds(control_.get(), fds)) throw failed("cannot start a process", EPIPE);
  }
  ::kill(pid_, SIGCONT);
  return Warden(std::move(ours));
}

}  // namespace muster::launch
