#include "muster/diagnose/devices/process_facts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include <pwd.h>
#include <unistd.h>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

namespace fs = std::filesystem;

/// Of lines "Name:\tvalue" the value; empty if there is none.
std::string_view line_behind(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(key)) return trim(line.substr(key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

/// "1024 kB" in bytes; 0 if it is not that.
uint64_t kib_of(std::string_view value) {
  const auto kib = to_int(value.substr(0, value.find(' ')));
  return kib && *kib > 0 ? static_cast<uint64_t>(*kib) << 10 : 0;
}

/// Directories of users may be on other machines, so each is asked for once.
std::string user_name(int64_t uid) {
  static thread_local std::map<int64_t, std::string> known;
  const auto [at, is_new] = known.try_emplace(uid, std::to_string(uid));
  if (!is_new) return at->second;
  std::vector<char> bytes(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, bytes.data(), bytes.size(), &found) == 0 &&
      found != nullptr)
    at->second = found->pw_name;
  return at->second;
}

/// The words of cmdline, which end in zero bytes each.
std::string command_words(std::string cmdline) {
  while (cmdline.ends_with('\0')) cmdline.pop_back();
  std::ranges::replace(cmdline, '\0', ' ');
  return std::string(trim(cmdline));
}

/// The group of version 2, or that of the memory controller.
std::string group_of(const std::string& text) {
  std::string group;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("0::") && group.empty()) group = line.substr(3);
    const size_t at = line.find(":memory:");
    if (at != std::string::npos) group = line.substr(at + 8);
  }
  return group;
}

/// State and start. Source: proc(5); the name in brackets may hold anything.
bool read_stat_of(const std::string& text, char& state, uint64_t& started) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  const auto fields = split(trim(std::string_view(text).substr(name_end + 1)), ' ');
  if (fields.size() < 20 || fields[0].empty()) return false;
  state = fields[0][0];
  started = static_cast<uint64_t>(to_int(fields[19]).value_or(0));
  return true;
}

}  // namespace

std::optional<ProcessFacts> process_facts(const Surroundings& surroundings, int64_t pid) {
  const std::string folder = concat("/proc/", pid);
  const auto status = surroundings.file(folder + "/status");
  const auto stat = surroundings.file(folder + "/stat");
  ProcessFacts facts{.pid = pid};
  char state = '?';
  if (!status || !stat || !read_stat_of(*stat, state, facts.started) || state == 'Z' ||
      state == 'X')
    return std::nullopt;
  const std::string_view uids = line_behind(*status, "Uid:");
  facts.uid = to_int(uids.substr(0, uids.find_first_of(" \t"))).value_or(-1);
  facts.user = user_name(facts.uid);
  facts.rss_bytes = kib_of(line_behind(*status, "VmRSS:"));
  facts.peak_bytes = kib_of(line_behind(*status, "VmHWM:"));
  facts.swap_bytes = kib_of(line_behind(*status, "VmSwap:"));
  facts.command = command_words(surroundings.file(folder + "/cmdline").value_or(""));
  if (facts.command.empty()) facts.command = concat('[', line_behind(*status, "Name:"), ']');
  facts.cgroup = group_of(surroundings.file(folder + "/cgroup").value_or(""));
  return facts;
}

std::vector<int64_t> process_ids(const Surroundings& surroundings) {
  std::vector<int64_t> ids;
  for (const std::string& name : surroundings.names_in("/proc")) {
    if (const auto pid = to_int(name); pid && *pid > 0) ids.push_back(*pid);
  }
  return ids;
}

uint64_t resident_bytes(const Surroundings& surroundings, int64_t pid) {
  const auto words = split(surroundings.file(concat("/proc/", pid, "/statm")).value_or(""), ' ');
  const auto pages = words.size() > 1 ? to_int(words[1]) : std::nullopt;
  static const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return pages && *pages > 0 ? static_cast<uint64_t>(*pages) * page_bytes : 0;
}

bool has_driver_open(const Surroundings& surroundings, int64_t pid) {
  std::error_code error;
  for (fs::directory_iterator at(surroundings.path(concat("/proc/", pid, "/fd")), error), end;
       !error && at != end;
       at.increment(error)) {
    std::error_code unread;
    const std::string target = fs::read_symlink(at->path(), unread).string();
    if (!unread && (target.starts_with("/dev/nvidia") || target == "/dev/dxg")) return true;
  }
  return false;
}

bool has_host_pids(const Surroundings& surroundings) {
  // The kernel's number for its first namespace: PROC_PID_INIT_INO in linux/proc_ns.h.
  std::error_code error;
  const auto target = fs::read_symlink(surroundings.path("/proc/self/ns/pid"), error);
  return !error && target.string() == "pid:[4026531836]";
}

}  // namespace muster::diagnose
