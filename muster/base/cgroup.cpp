#include "muster/base/cgroup.h"

#include <algorithm>
#include <functional>

#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

fs::path below(const fs::path& root, std::string_view absolute) {
  return root / fs::path(absolute).relative_path();
}

/// The group's path in the hierarchy of `controller` (empty: version 2), or nothing.
std::optional<std::string> group_path(const fs::path& root, std::string_view controller) {
  const auto text = read_kernel_file(below(root, "/proc/self/cgroup"));
  for (const std::string& line : split(text.value_or(""), '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const auto has = [&](const std::string& name) { return name == controller; };
    if (std::ranges::any_of(split(names, ','), has)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The folders of a hierarchy from the group's own up to its top, for every mount point that it
/// usually has.
std::vector<fs::path> folders(const fs::path& root,
                              std::string_view controller,
                              const std::vector<std::string>& mounts) {
  std::vector<fs::path> out;
  const auto group = group_path(root, controller);
  if (!group) return out;
  for (const std::string& mount : mounts) {
    for (fs::path at = fs::path(*group).relative_path();; at = at.parent_path()) {
      out.push_back(below(root, mount) / at);
      if (at.empty()) break;
    }
  }
  return out;
}

const std::vector<std::string> kUnified{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

/// The number behind `key` in lines of "key number".
std::optional<int64_t> number_behind(const std::string& text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return to_int(trim(std::string_view(line).substr(key.size())));
  }
  return std::nullopt;
}

template <class T>
void lower(std::optional<T>& least, std::optional<T> value) {
  if (value && (!least || *value < *least)) least = value;
}

}  // namespace

std::optional<double> cgroup_cpus(const fs::path& root) {
  std::optional<double> least;
  const auto quota_of = [](std::optional<int64_t> quota, std::optional<int64_t> period) {
    return quota && period && *quota > 0 && *period > 0
               ? std::optional(static_cast<double>(*quota) / static_cast<double>(*period))
               : std::nullopt;
  };
  for (const fs::path& folder : folders(root, "", kUnified)) {
    const std::vector<std::string> words =
        split(trim(read_kernel_file(folder / "cpu.max").value_or("")), ' ');
    if (words.size() == 2) lower(least, quota_of(to_int(words[0]), to_int(words[1])));
  }
  for (const fs::path& folder :
       folders(root, "cpu", {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})) {
    const auto number = [&](const char* name) {
      return to_int(trim(read_kernel_file(folder / name).value_or("")));
    };
    lower(least, quota_of(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")));
  }
  return least;
}

std::optional<uint64_t> cgroup_memory(const fs::path& root) {
  // Version 1 has no word for "no limit", only a number near 2^63.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  std::optional<uint64_t> least;
  const auto look = [&](const fs::path& file) {
    const auto bytes = to_int(trim(read_kernel_file(file).value_or("")));
    if (bytes && *bytes > 0 && *bytes < kNoLimit)
      lower(least, std::optional(static_cast<uint64_t>(*bytes)));
  };
  for (const fs::path& folder : folders(root, "", kUnified)) look(folder / "memory.max");
  for (const fs::path& folder : folders(root, "memory", {"/sys/fs/cgroup/memory"}))
    look(folder / "memory.limit_in_bytes");
  return least;
}

std::optional<CgroupMemory> cgroup_memory_use(const fs::path& root) {
  struct Names {
    const char *used, *limit, *cache;
  };
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  std::optional<CgroupMemory> chosen;
  const auto look = [&](const fs::path& folder, const fs::path& mount, const Names& names) {
    const auto used = to_int(trim(read_kernel_file(folder / names.used).value_or("")));
    if (!used || *used < 0) return;
    const auto limit = to_int(trim(read_kernel_file(folder / names.limit).value_or("")));
    CgroupMemory memory{.used_bytes = static_cast<uint64_t>(*used)};
    const fs::path inside = folder.lexically_relative(mount);
    memory.group = inside == "." ? "/" : "/" + inside.string();
    if (limit && *limit > 0 && *limit < kNoLimit)
      memory.limit_bytes = static_cast<uint64_t>(*limit);
    const auto cache =
        number_behind(read_kernel_file(folder / "memory.stat").value_or(""), names.cache);
    memory.cache_bytes = std::min(memory.used_bytes, static_cast<uint64_t>(cache.value_or(0)));
    const bool is_less = chosen && memory.limit_bytes &&
                         (!chosen->limit_bytes || *memory.limit_bytes < *chosen->limit_bytes);
    if (!chosen || is_less) chosen = memory;
  };
  for (const std::string& mount : kUnified) {
    for (const fs::path& folder : folders(root, "", {mount}))
      look(folder, below(root, mount), {"memory.current", "memory.max", "inactive_file"});
  }
  const std::string first = "/sys/fs/cgroup/memory";
  for (const fs::path& folder : folders(root, "memory", {first}))
    look(folder,
         below(root, first),
         {"memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"});
  return chosen;
}

std::optional<std::string> cgroup_file(std::string_view name, const fs::path& root) {
  for (const fs::path& folder : folders(root, "", kUnified)) {
    // The top of the hierarchy, and it alone, has no type.
    if (!read_kernel_file(folder / "cgroup.type")) continue;
    if (auto text = read_kernel_file(folder / name)) return text;
  }
  return std::nullopt;
}

std::optional<int64_t> oom_kills(const fs::path& root) {
  for (const fs::path& folder : folders(root, "", kUnified)) {
    if (const auto text = read_kernel_file(folder / "memory.events")) {
      if (const auto count = number_behind(*text, "oom_kill")) return count;
    }
  }
  for (const fs::path& folder : folders(root, "memory", {"/sys/fs/cgroup/memory"})) {
    if (const auto text = read_kernel_file(folder / "memory.oom_control")) {
      if (const auto count = number_behind(*text, "oom_kill")) return count;
    }
  }
  return number_behind(read_kernel_file(below(root, "/proc/vmstat")).value_or(""), "oom_kill");
}

}  // namespace muster
