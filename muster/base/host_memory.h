// The machine's memory, and what of it this process can still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace muster {

/// "MemTotal:  16384 kB" of /proc/meminfo's text in bytes, by the key "MemTotal:"; nothing if it is not
/// there.
std::optional<uint64_t> meminfo_bytes(std::string_view meminfo, std::string_view key);

/// The addresses of this process where `ulimit -v` (RLIMIT_AS) limits them.
struct LimitedAddresses {
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;  ///< mapped, whether there is memory behind them or not
};

/// Nothing: there is no limit, or it is not to be seen. `root` is put before /proc.
std::optional<LimitedAddresses> limited_addresses(const std::filesystem::path& root = "/");

/// Bytes that this process can still take: the least of what the machine has available (MemAvailable),
/// what the control group's limit leaves (what the kernel drops at need counts as free), and what
/// `ulimit -v` does. Nothing where none of these is to be seen. `root` is put before /proc and /sys.
std::optional<uint64_t> free_host_memory(const std::filesystem::path& root = "/");

}  // namespace muster
