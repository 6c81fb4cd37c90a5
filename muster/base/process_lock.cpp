#include "muster/base/process_lock.h"

#include <mutex>
#include <set>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// A lock by fcntl does not keep out the process that has it, and is lost when that process closes
// any descriptor of the file: hence this list of paths.
std::mutex held_locks_mutex;
std::set<std::string>& held_locks() {
  static std::set<std::string> paths;
  return paths;
}

/// One name for a file however it is written. The file itself need not be there.
std::string one_name(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path real = fs::weakly_canonical(folder, ignored);
  return real.empty() ? path.string() : (real / path.filename()).string();
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// What a holder writes into the file: "PID HOST".
LockHolder said_in(int fd) {
  char bytes[512];
  const ssize_t got = ::pread(fd, bytes, sizeof bytes, 0);
  const std::string text(trim(std::string_view(bytes, got > 0 ? static_cast<size_t>(got) : 0)));
  const size_t blank = text.find(' ');
  if (blank == std::string::npos) return {};
  return {.pid = to_int(text.substr(0, blank)).value_or(0), .host = text.substr(blank + 1)};
}

/// Who has what `lock`, filled in by F_GETLK, tells of. The kernel knows processes of this machine
/// alone, but those for sure: the words in the file may be those of the holder before.
LockHolder who(const struct flock& lock, int fd) {
  LockHolder said = said_in(fd);
  if (lock.l_pid <= 0 || said.pid == lock.l_pid) return said;
  return {.pid = lock.l_pid, .host = host_name()};
}

bool knows_no_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

Error cannot_lock(const std::string& path, int error) {
  return environment_error({.refused = "cannot lock " + path, .rule = errno_text(error)});
}

/// Whether `fd` is still the file of that name: its last holder may have removed it meanwhile.
bool is_file_of(int fd, const std::string& path) {
  struct stat ours {
  }, there{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace

std::string text_of(const LockHolder& holder) {
  return concat(holder.pid > 0 ? concat("process ", holder.pid) : "another process",
                holder.host.empty() ? "" : " on host " + holder.host);
}

std::unique_ptr<ProcessLock> ProcessLock::try_acquire(const fs::path& path, LockHolder& holder) {
  std::unique_ptr<ProcessLock> mine(new ProcessLock);
  const std::string name = one_name(path);
  const std::lock_guard guard(held_locks_mutex);
  if (held_locks().contains(name)) {
    holder = {.pid = ::getpid(), .host = host_name()};
    return nullptr;
  }
  for (;;) {
    mine->fd_.reset(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!mine->fd_) throw cannot_lock(path.string(), errno);
    struct flock lock = whole_file();
    if (::fcntl(mine->fd_.get(), F_SETLK, &lock) != 0) {
      if (knows_no_locks(errno)) {
        mine->keeps_others_out_ = false;
        break;
      }
      if (errno != EACCES && errno != EAGAIN) throw cannot_lock(path.string(), errno);
      lock = whole_file();
      if (::fcntl(mine->fd_.get(), F_GETLK, &lock) != 0) throw cannot_lock(path.string(), errno);
      if (lock.l_type == F_UNLCK) continue;  // freed just now
      holder = who(lock, mine->fd_.get());
      return nullptr;
    }
    if (is_file_of(mine->fd_.get(), name)) break;
  }
  if (::ftruncate(mine->fd_.get(), 0) != 0) throw cannot_lock(path.string(), errno);
  write_all(mine->fd_.get(), concat(::getpid(), ' ', host_name(), '\n'), path);
  held_locks().insert(name);
  mine->path_ = name;
  return mine;
}

std::optional<LockHolder> ProcessLock::holder_of(const fs::path& path) {
  const std::string name = one_name(path);
  const std::lock_guard guard(held_locks_mutex);
  if (held_locks().contains(name)) return LockHolder{.pid = ::getpid(), .host = host_name()};
  const UniqueFd fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  // Only a file that is not there says that nobody holds it.
  if (!fd && errno != ENOENT && errno != ENOTDIR) throw cannot_lock(name, errno);
  struct flock lock = whole_file();
  if (!fd || ::fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return who(lock, fd.get());
}

ProcessLock::~ProcessLock() {
  if (path_.empty()) return;
  const std::lock_guard guard(held_locks_mutex);
  // While it is locked: see is_file_of. Another's, where our folder was moved away, stays.
  if (is_file_of(fd_.get(), path_)) ::unlink(path_.c_str());
  fd_.reset();
  held_locks().erase(path_);
}

}  // namespace muster
