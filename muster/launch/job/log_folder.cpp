#include "muster/launch/job/log_folder.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/local_time.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;

/// In the folder of a run, so that it is known for one.
constexpr const char* kMark = ".muster-logs";

/// The form of make_run_id, maybe of one of several machines: 20261121-103059-…-node-1. Runs of
/// earlier versions have no mark.
bool is_run_id(std::string name) {
  if (const size_t node = name.find("-node-"); node != std::string::npos) name.resize(node);
  if (name.size() < 17 || name[8] != '-' || name[15] != '-') return false;
  return std::all_of(
      name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) || c == '-'; });
}

/// A folder, and no link to one, of this user. `others`: what others may do there, as mode bits.
bool is_own_folder(const fs::path& path, mode_t others) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077 & ~others) == 0;
}

Error no_log_folder(const fs::path& folder, int error) {
  return environment_error({.refused = "cannot create the log folder " + folder.string(),
                            .rule = errno_text(error),
                            .hint = "choose another one with --log-dir"});
}

/// The folder's lock, or nothing if another process has it.
UniqueFd lock_folder(const fs::path& folder, int operation) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd && ::flock(fd.get(), operation | LOCK_NB) != 0) fd.reset();
  return fd;
}

}  // namespace

fs::path default_log_dir() {
  const auto set = [](std::string_view name) { return process_environment(name).value_or(""); };
  if (const std::string state = set("XDG_STATE_HOME"); state.starts_with('/')) {
    return fs::path(state) / "muster" / "logs";
  }
  // Under sudo the home may be another user's, who could put links there.
  const std::string home = set("HOME");
  std::error_code error;
  if (home.starts_with('/') && ::access(home.c_str(), W_OK) == 0 &&
      is_own_folder(fs::canonical(home, error), 075)) {
    return fs::path(home) / ".local" / "state" / "muster" / "logs";
  }
  const std::string temporary = set("TMPDIR");
  return private_folder(fs::path(temporary.empty() ? "/tmp" : temporary) /
                        concat("muster-logs-", ::geteuid()));
}

fs::path private_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || is_own_folder(path, 0)) return path;
  std::string name = path.string() + ".XXXXXX";
  if (::mkdtemp(name.data()) != nullptr) return name;
  throw environment_error(
      {.refused = "cannot create the log folder " + name, .rule = errno_text(errno)});
}

std::string make_run_id() {
  static std::atomic<int> counter{0};
  return concat(local_time_now("%Y%m%d-%H%M%S"), '-', ::getpid(), '-', counter++);
}

LogFolder::LogFolder(const fs::path& dir, const std::string& run) : path_(dir / run) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw no_log_folder(dir, error.value());
  for (int64_t number = 2; ::mkdir(path_.c_str(), 0777) != 0; ++number) {
    if (errno != EEXIST) throw no_log_folder(path_, errno);
    path_ = dir / concat(run, '-', number);
    has_another_name_ = true;
  }
  lock_ = lock_folder(path_, LOCK_SH);
  make_writable_folder(path_, "log folder");
  const UniqueFd mark(::open((path_ / kMark).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

fs::path LogFolder::make_attempt(int64_t restart_count, int64_t ranks) const {
  if (path_.empty()) return {};
  const fs::path attempt = path_ / concat("attempt_", restart_count);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::error_code error;
    fs::create_directories(attempt / std::to_string(rank), error);
    if (error) throw no_log_folder(attempt, error.value());
    fs::remove(attempt / std::to_string(rank) / "error.json", error);
  }
  return attempt;
}

fs::path log_with_words(const fs::path& attempt, int64_t local_rank) {
  if (attempt.empty()) return {};
  for (const char* name : {"stderr.log", "stdout.log"}) {
    const fs::path file = attempt / std::to_string(local_rank) / name;
    std::error_code error;
    if (const auto size = fs::file_size(file, error); !error && size > 0) return file;
  }
  return {};
}

void prune_runs(const fs::path& dir, size_t keep) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> runs;  // by when their last attempt began
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const fs::path& run = it->path();
    if (is_run_id(run.filename().string()) || fs::is_regular_file(run / kMark, gone))
      runs.emplace_back(fs::last_write_time(run, gone), run);
  }
  std::sort(runs.begin(), runs.end());
  for (size_t i = 0; i + keep < runs.size(); ++i) {
    const fs::path& run = runs[i].second;
    if (const UniqueFd lock = lock_folder(run, LOCK_EX); lock) fs::remove_all(run, error);
  }
}

LogFile::LogFile(const fs::path& path)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (!fd_) trouble_ = concat("cannot create ", path.string(), ": ", errno_text(errno));
}

std::string LogFile::write(std::string_view bytes) {
  try {
    if (fd_) write_all(fd_.get(), bytes, path_);
  } catch (const Error& error) {
    fd_.reset();
    trouble_ = concat(error.text().refused, ": ", error.text().rule);
  }
  if (trouble_.empty()) return "";
  return std::exchange(trouble_, "") + "; the job goes on without this log";
}

}  // namespace muster::launch
