#include "muster/base/host_memory.h"

#include <algorithm>
#include <string>

#include <unistd.h>

#include "muster/base/cgroup.h"
#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

uint64_t less(uint64_t whole, uint64_t part) { return whole - std::min(whole, part); }

/// The first word of `text`, as a whole number of at least 0.
std::optional<uint64_t> first_number(std::string_view text) {
  const std::string_view rest = trim(text);
  const auto number = to_int(rest.substr(0, rest.find_first_of(" \t\n")));
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

/// What stands behind `key` in the line that begins with it.
std::optional<std::string_view> behind(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const std::string_view line = text.substr(0, end); line.starts_with(key))
      return line.substr(key.size());
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> meminfo_bytes(std::string_view meminfo, std::string_view key) {
  const auto kib = first_number(behind(meminfo, key).value_or(""));
  return kib ? std::optional(*kib << 10) : std::nullopt;
}

std::optional<LimitedAddresses> limited_addresses(const fs::path& root) {
  const std::string limits = read_kernel_file(root / "proc/self/limits").value_or("");
  const auto limit =
      first_number(behind(limits, "Max address space").value_or(""));  // the soft one
  if (!limit) return std::nullopt;                                     // "unlimited"
  const auto pages = first_number(read_kernel_file(root / "proc/self/statm").value_or(""));
  if (!pages) return std::nullopt;
  return LimitedAddresses{.limit_bytes = *limit,
                          .used_bytes = *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))};
}

std::optional<uint64_t> free_host_memory(const fs::path& root) {
  const std::string meminfo = read_kernel_file(root / "proc/meminfo").value_or("");
  std::optional<uint64_t> least = meminfo_bytes(meminfo, "MemAvailable:");
  const auto allow = [&](uint64_t bytes) { least = std::min(least.value_or(bytes), bytes); };
  if (const auto group = cgroup_memory_use(root); group && group->limit_bytes)
    allow(less(*group->limit_bytes, less(group->used_bytes, group->cache_bytes)));
  if (const auto addresses = limited_addresses(root))
    allow(less(addresses->limit_bytes, addresses->used_bytes));
  return least;
}

}  // namespace muster
