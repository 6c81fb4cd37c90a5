// A file that one process holds, and that is free again when that process is gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/file.h"

namespace muster {

/// Who holds a lock, as far as it can be told.
struct LockHolder {
  int64_t pid = 0;   ///< 0: unknown
  std::string host;  ///< empty: unknown
};
/// "process 12 on host a", or what is known of that.
std::string text_of(const LockHolder& holder);

/// A lock by fcntl on a whole file. It belongs to the process: the kernel frees it when the process
/// ends, however it ends and whatever children are left, and NFS carries it between machines (an
/// NFSv4 server frees it when a dead machine's lease is over, after some 90 s). Within a process a
/// second one is refused as well. Nothing else may open the file. Any thread.
class ProcessLock {
 public:
  /// Takes the lock; makes the file, in a folder that is there. Null if it is held, with who holds
  /// it in `holder`. Throws an environment error if the file cannot be made or locked.
  static std::unique_ptr<ProcessLock> try_acquire(const std::filesystem::path& path,
                                                  LockHolder& holder);

  /// Who holds it now; nothing if nobody does, or if the file is not there.
  static std::optional<LockHolder> holder_of(const std::filesystem::path& path);

  /// Removes the file, if it is still at its path, and lets go.
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  /// False where the file system knows no locks: then nobody is kept out.
  bool keeps_others_out() const { return keeps_others_out_; }

 private:
  ProcessLock() = default;

  std::string path_;
  UniqueFd fd_;
  bool keeps_others_out_ = true;
};

}  // namespace muster
