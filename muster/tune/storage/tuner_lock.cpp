#include <algorithm>

#include <errno.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/process_lock.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_paths.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {
namespace {

/// Nothing else opens this file: who closes a descriptor of it loses its lock by fcntl.
std::string lock_path(const std::filesystem::path& file, std::string_view study) {
  return file_of_study(file, study, "lock").string();
}

Error is_running(std::string_view study, const std::string& who) {
  return usage_error({.refused = concat("study \"", study, "\" is being run already"),
                      .rule = "one tuner runs a study",
                      .value = who,
                      .hint =
                          "wait for it, or end it: `muster study stop` where `muster tune` runs "
                          "it, else that program by Ctrl-C"});
}

std::string named(const LockHolder& holder) {
  if (holder.pid <= 0) return "another process";
  const bool is_here = holder.host.empty() || holder.host == host_name();
  return concat("process ", holder.pid, is_here ? "" : " on host " + holder.host);
}

/// A folder that cannot be written is met here first.
std::unique_ptr<ProcessLock> taken(const std::filesystem::path& path, LockHolder& holder) {
  try {
    return ProcessLock::try_acquire(path, holder);
  } catch (const Error& error) {
    ErrorText said = error.text();
    if (said.hint.empty()) said.hint = kWriteHint;
    throw Error(error.kind(), said);
  }
}

}  // namespace

std::optional<int> running_tuner(const std::filesystem::path& file, std::string_view study) {
  const auto holder = ProcessLock::holder_of(lock_path(file, study));
  if (!holder) return std::nullopt;
  const bool is_here = holder->host == host_name();
  return is_here ? std::max(0, static_cast<int>(holder->pid)) : 0;
}

struct TunerLock::Impl {
  std::unique_ptr<ProcessLock> lock;
};

TunerLock::TunerLock(const std::filesystem::path& file, std::string_view study)
    : impl_(std::make_unique<Impl>()) {
  const std::filesystem::path path = lock_path(file, study);
  if (!std::filesystem::exists(path.parent_path())) {
    throw environment_error({.refused = concat("cannot lock ", path.string()),
                             .rule = errno_text(ENOENT),
                             .hint = "make the folder of the storage first"});
  }
  LockHolder holder;
  impl_->lock = taken(path, holder);
  if (!impl_->lock) throw is_running(study, named(holder));
  if (!impl_->lock->keeps_others_out()) {
    throw environment_error({.refused = concat("cannot lock ", path.string()),
                             .rule = "the file system of a study's storage has locks"});
  }
}

TunerLock::~TunerLock() = default;

}  // namespace muster::tune
