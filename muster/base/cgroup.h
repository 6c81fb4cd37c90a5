// The limits and counters of this process's control group, version 1 or 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Note [Control groups]
// /proc/self/cgroup names a folder per hierarchy: "0::/a/b" of version 2, "4:memory:/a/b" of
// version 1. In a container the folder may lie outside what is mounted, so that each file is looked
// for in /a/b, in /a, and at the top, and a limit is the smallest of all that are there, since each
// ancestor's counts too.

/// The cores that the quota allows; nothing if there is none. `root` is put before /proc and /sys.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

/// The memory limit in bytes; nothing if there is none.
std::optional<uint64_t> cgroup_memory(const std::filesystem::path& root = "/");

struct CgroupMemory {
  std::string group;         ///< "/a/b": whose numbers these are
  uint64_t used_bytes = 0;   ///< of its processes, the page cache of their files included
  uint64_t cache_bytes = 0;  ///< of that, what the kernel drops at need: inactive files
  std::optional<uint64_t> limit_bytes;  ///< nothing: there is none
};

/// Memory of the group whose limit is the smallest that counts here, or of this process's own if
/// there is no limit; nothing if it is not to be seen.
std::optional<CgroupMemory> cgroup_memory_use(const std::filesystem::path& root = "/");

/// The text of a file of this process's group of version 2 ("memory.pressure"), or of the nearest
/// one above that is to be seen. Not of the hierarchy's top, whose files are
/// the machine's.
std::optional<std::string> cgroup_file(std::string_view name,
                                       const std::filesystem::path& root = "/");

/// Processes of this control group (or, where it does not say, of the machine) that were killed for
/// memory so far; nothing if no counter is there.
std::optional<int64_t> oom_kills(const std::filesystem::path& root = "/");

}  // namespace muster
