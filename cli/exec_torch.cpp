#include "cli/exec_torch.h"

#include <filesystem>
#include <vector>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

/// OpenMP's threads spin for milliseconds when they wait. Beside loader threads, or anything else
/// on the machine, a spinning thread holds the core that the others need; asleep, it takes tens of
/// microseconds to wake for each part of a step. Seen with 2 threads on 2 cores, ms per step of an
/// MLP and of ResNet-18 alone, and of ResNet-18 beside four busy processes:
///     spins     300000       30000       10000       3000        0
///     alone     2.3, 62      2.3, 64     2.4, 65     2.5, 64     3.9, 96
///     beside                 851         439         320         239
/// So they spin for a short while unless the user says otherwise.
void let_threads_sleep() {
  if (::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "5000", /*overwrite=*/0);
}

/// A step frees what the next one allocates again. Left alone, glibc gives blocks of some MB back
/// to the kernel each time and has their pages zeroed anew (seen, cnn: half a million page faults
/// in three epochs, a sixth of the time; kept: a tenth of them). The threshold is the most that
/// glibc takes. Not glibc.malloc.hugetlb: its huge pages cost more than they gave where memory is
/// fragmented.
void keep_memory() {
  for (const char* name : {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}) {
    if (::getenv(name) != nullptr) return;
  }
  ::setenv("GLIBC_TUNABLES",
           "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296",
           /*overwrite=*/0);
}

/// c10d warns with a stack of fifteen lines when a peer's end closes a connection, which every survivor of a
/// rank's death sees; what has happened our own error says. Other words of LibTorch that are no errors
/// are for who writes the program.
void keep_warnings() { ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0); }

}  // namespace

void exec_torch(const std::string& command, std::span<const std::string> args) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string sibling = (self.parent_path() / "muster-torch").string();
  std::vector<char*> argv{const_cast<char*>("muster"), const_cast<char*>(command.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  let_threads_sleep();
  keep_memory();
  keep_warnings();
  ::execv(sibling.c_str(), argv.data());
  throw environment_error(
      {.refused = "cannot start " + sibling,
       .rule = errno_text(errno),
       .hint = "`muster " + command + "` needs LibTorch; build with -DMUSTER_WITH_TORCH=ON"});
}

}  // namespace muster::cli
