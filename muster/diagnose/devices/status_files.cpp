// The files of Note [Status files]: made, written, found, read.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/diagnose/devices/published_state.h"

namespace muster::diagnose {
namespace {

constexpr std::string_view kStatusEnd = ".status";
constexpr int kTornReads = 100;  // before a file that is always in the middle of a write is left
constexpr size_t kMostStatusFiles = 4096;  // of one folder

/// The folder, if it is this user's alone; else why not, which is empty if it is not there.
UniqueFd open_own_folder(const std::filesystem::path& folder, std::string& why) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno != ENOENT) why = concat(folder.string(), ": ", errno_text(errno));
    return {};
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    why = concat(folder.string(), ": ", errno_text(errno));
  } else if (status.st_uid != ::geteuid()) {
    why = concat(folder.string(), " belongs to user ", status.st_uid);
  } else if ((status.st_mode & 022) != 0) {
    why = concat(folder.string(), " may be written by others");
  } else {
    return fd;
  }
  return {};
}

/// Names of status files, in order.
std::vector<std::string> status_names(int folder) {
  std::vector<std::string> names;
  UniqueFd again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* open = again ? ::fdopendir(again.get()) : nullptr;
  if (open == nullptr) return names;
  again.release();
  while (const dirent* entry = ::readdir(open)) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(kStatusEnd) && names.size() < kMostStatusFiles) names.emplace_back(name);
  }
  ::closedir(open);
  std::ranges::sort(names);
  return names;
}

/// Nothing if it is no file of this user's or cannot be read.
std::optional<std::string> read_bytes(int folder, const std::string& name) {
  const UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return std::nullopt;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    errno = EINVAL;
    return std::nullopt;
  }
  std::string bytes(kMaxPublishedBytes, '\0');
  const ssize_t got = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

/// Reads again what a writer was in the middle of. Nothing if it never becomes whole.
std::optional<PublishedState> read_state(int folder, const std::string& name, bool& is_gone) {
  for (int i = 0; i < kTornReads; ++i) {
    const auto bytes = read_bytes(folder, name);
    is_gone = !bytes && errno == ENOENT;
    if (!bytes) return std::nullopt;
    try {
      return parse_published(*bytes, name);
    } catch (const Error&) {
      std::this_thread::yield();  // to the writer, which is in the middle of its call
    }
  }
  return std::nullopt;
}

/// Files of processes of this boot and namespace that have ended.
void remove_dead(int folder, const std::string& host) {
  for (const std::string& name : status_names(folder)) {
    bool is_gone = false;
    const auto state = read_state(folder, name, is_gone);
    if (state && state->process.host == host && life_of(state->process) == Life::kGone)
      ::unlinkat(folder, name.c_str(), 0);
  }
}

}  // namespace

StatePublisher::StatePublisher(std::filesystem::path folder) : process_(this_process()) {
  if (process_.host.empty()) {
    why_ = "/proc does not tell when this process began";
    return;
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    why_ = concat(folder.string(), ": ", errno_text(errno));
    return;
  }
  const UniqueFd open = open_own_folder(folder, why_);
  if (!open) return;
  remove_dead(open.get(), process_.host);
  const std::string name = concat(process_.pid, '-', process_.started);
  path_ = folder / (name + std::string(kStatusEnd));
  // It appears with its first bytes in it.
  const std::string fresh = name + ".new";
  UniqueFd fd(::openat(
      open.get(), fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  fd_ = fd.get();
  if (fd_ < 0 || !publish({}) ||
      ::renameat(open.get(), fresh.c_str(), open.get(), path_.filename().c_str()) != 0) {
    if (why_.empty()) why_ = concat(path_.string(), ": ", errno_text(errno));
    ::unlinkat(open.get(), fresh.c_str(), 0);
    fd_ = -1;
    return;
  }
  fd_ = fd.release();
}

StatePublisher::~StatePublisher() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (::getpid() == process_.pid) ::unlink(path_.c_str());
}

bool StatePublisher::publish(PublishedState state) {
  if (fd_ < 0 || ::getpid() != process_.pid) return false;
  state.process = process_;
  state.updated_unix_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string bytes = published_text(state);
  const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), 0);
  if (put == static_cast<ssize_t>(bytes.size())) return true;
  why_ = concat(path_.string(), ": ", put < 0 ? errno_text(errno) : "not all was written");
  return false;
}

PublishedFiles read_published(const std::filesystem::path& folder) {
  PublishedFiles files;
  const UniqueFd open = open_own_folder(folder, files.refused);
  if (!open) return files;
  const std::string host = this_process().host;
  for (const std::string& name : status_names(open.get())) {
    bool is_gone = false;
    auto state = read_state(open.get(), name, is_gone);
    if (!state) {
      files.unreadable += is_gone ? 0 : 1;
    } else if (state->process.host != host) {
      ++files.elsewhere;
    } else if (life_of(state->process) == Life::kGone) {
      ++files.dead;
    } else {
      files.states.push_back(std::move(*state));
    }
  }
  std::ranges::sort(
      files.states, {}, [](const PublishedState& state) { return state.process.pid; });
  return files;
}

}  // namespace muster::diagnose
