#include "muster/diagnose/record/process_life.h"

#include <optional>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

struct Stat {
  char state = '?';
  uint64_t started = 0;
};

/// Source: proc(5). The name in brackets may hold anything, so fields are counted behind its end.
std::optional<Stat> read_stat(const std::string& path) {
  const std::string text = read_kernel_file(path).value_or("");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      split(trim(std::string_view(text).substr(name_end + 1)), ' ');
  if (fields.size() < 20 || fields[0].empty()) return std::nullopt;
  return Stat{fields[0][0], static_cast<uint64_t>(to_int(fields[19]).value_or(0))};
}

std::string process_namespace() {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0) return "";
  return std::to_string(status.st_ino);
}

}  // namespace

ProcessId this_process() {
  ProcessId process{.pid = ::getpid()};
  const std::string boot(trim(read_kernel_file("/proc/sys/kernel/random/boot_id").value_or("")));
  const std::string names = process_namespace();
  const auto stat = read_stat("/proc/self/stat");
  if (!boot.empty() && !names.empty() && stat) {
    process.host = boot + "/" + names;
    process.started = stat->started;
  }
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) == 0) process.hostname = name;
  return process;
}

Life life_of(const ProcessId& process) {
  static const std::string here = this_process().host;
  if (here.empty() || process.host != here) return Life::kUnknown;
  const auto stat = read_stat(concat("/proc/", process.pid, "/stat"));
  if (!stat || stat->started != process.started) return Life::kGone;
  switch (stat->state) {
    case 'Z':
    case 'X':
      return Life::kGone;
    case 'T':
    case 't':
      return Life::kStopped;
    default:
      return Life::kRuns;
  }
}

std::string main_thread_state() {
  const auto stat = read_stat(concat("/proc/self/task/", ::getpid(), "/stat"));
  if (!stat) return "";
  return stat->state == 'R' ? "running" : "asleep";
}

}  // namespace muster::diagnose
