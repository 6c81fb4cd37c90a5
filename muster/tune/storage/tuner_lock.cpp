#include <algorithm>
#include <mutex>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_paths.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {
namespace {

// A lock by fcntl belongs to the process: the kernel frees it at its death whatever children are
// left, and tells who holds it. But it does not keep out a second tuner of the same process, and is
// lost when the process closes any descriptor of the file: hence this list, and hence a file that
// nothing else opens.
std::mutex held_mutex;
std::set<std::string>& held() {
  static std::set<std::string> paths;
  return paths;
}

std::string lock_path(const std::filesystem::path& file, std::string_view study) {
  return file_of_study(file, study, "lock").string();
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

Error is_running(std::string_view study, const std::string& who) {
  return usage_error({.refused = concat("study \"", study, "\" is being run already"),
                      .rule = "one tuner runs a study",
                      .value = who,
                      .hint = "wait for it, or end it with `muster study stop`"});
}

Error no_lock(const std::string& path) {
  const int error = errno;
  return environment_error({.refused = concat("cannot lock ", path),
                            .rule = errno_text(error),
                            .hint = error == ENOENT ? "make the folder of the storage first" : ""});
}

}  // namespace

std::optional<int> running_tuner(const std::filesystem::path& file, std::string_view study) {
  const std::string path = lock_path(file, study);
  const std::lock_guard guard(held_mutex);
  if (held().contains(path)) return ::getpid();  // opening the file would lose the lock
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock = whole_file();
  if (!fd || ::fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return std::max(0, static_cast<int>(lock.l_pid));
}

struct TunerLock::Impl {
  std::string path;
  UniqueFd fd;

  /// Opens and locks; false if the file went away meanwhile (its holder removes it at its end).
  bool try_once(std::string_view study) {
    fd.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd) throw no_lock(path);
    struct flock lock = whole_file();
    if (::fcntl(fd.get(), F_SETLK, &lock) != 0) {
      if (errno != EACCES && errno != EAGAIN) throw no_lock(path);
      lock = whole_file();
      if (::fcntl(fd.get(), F_GETLK, &lock) != 0) throw no_lock(path);
      if (lock.l_type == F_UNLCK) return false;  // freed just now
      throw is_running(study, lock.l_pid > 0 ? concat("process ", lock.l_pid) : "another process");
    }
    struct stat ours {
    }, there{};
    return ::fstat(fd.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  }
};

TunerLock::TunerLock(const std::filesystem::path& file, std::string_view study)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = lock_path(file, study);
  const std::lock_guard guard(held_mutex);
  if (held().contains(impl_->path)) throw is_running(study, concat("process ", ::getpid()));
  while (!impl_->try_once(study)) {
  }
  held().insert(impl_->path);
}

TunerLock::~TunerLock() {
  const std::lock_guard guard(held_mutex);
  ::unlink(impl_->path.c_str());  // while it is locked: see try_once
  impl_->fd.reset();
  held().erase(impl_->path);
}

}  // namespace muster::tune
