// What a rank knows of its machine, as its peers need it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/error.h"
#include "muster/base/file.h"

namespace muster::distributed {

/// Equal texts: the processes can open each other's memory. The kernel's boot id and the pid
/// namespace, so that two containers of one machine count as two hosts.
std::string host_identity();

/// Cores that this process may run on.
int usable_cores();

/// The text under `key` of the store; waits for it. Throws an environment error: `late`, with the
/// store's words, if it does not come within the store's timeout, or that the store is gone.
std::string await_text(c10d::Store& store, const std::string& key, const ErrorText& late);

/// The same of a text that `rank` puts there, whom the error names.
std::string await_text(c10d::Store& store, const std::string& key, int rank);

/// Puts this rank's text into the store under `key` and takes everybody's, by rank. Collective.
/// Throws an environment error that names the first rank that did not come within the store's
/// timeout.
std::vector<std::string> exchange_texts(
    c10d::Store& store, const std::string& key, int rank, int world_size, const std::string& text);

/// Another process, watched without being its parent: by a pidfd, or, where the kernel or a
/// container's rules refuse those, by /proc.
class PeerProcess {
 public:
  PeerProcess() = default;  ///< watches nothing: always alive
  explicit PeerProcess(pid_t pid);
  bool alive() const;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  UniqueFd fd_;
};

}  // namespace muster::distributed
