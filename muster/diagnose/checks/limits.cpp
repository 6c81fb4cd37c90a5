// Limits of the process.
#include <optional>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

constexpr int64_t kEnoughFiles = 4096, kFewFiles = 256, kEnoughProcesses = 1024;

/// The soft limit of that name in /proc/self/limits ("Max open files   1024   524288   files"):
/// nothing if it is not there, -1 for "unlimited".
std::optional<int64_t> soft_limit(const std::string& limits, std::string_view name) {
  for (const std::string& line : split(limits, '\n')) {
    if (!line.starts_with(name)) continue;
    const std::string_view rest = trim(std::string_view(line).substr(name.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    return word == "unlimited" ? std::optional<int64_t>(-1) : to_int(word);
  }
  return std::nullopt;
}

std::string limit_text(int64_t limit, bool is_bytes) {
  if (limit < 0) return "unlimited";
  return is_bytes ? human_bytes(static_cast<uint64_t>(limit)) : std::to_string(limit);
}

bool has_infiniband(const Surroundings& surroundings) {
  return !surroundings.names_in("/sys/class/infiniband").empty();
}

struct Judged {
  Verdict verdict = Verdict::kOk;
  std::string hint = {};
};

Judged judge_files(int64_t files, const Surroundings&) {
  if (files < 0 || files >= kEnoughFiles) return {};
  return {files < kFewFiles ? Verdict::kFail : Verdict::kWarn, "ulimit -n 65536"};
}

Judged judge_locked(int64_t bytes, const Surroundings& surroundings) {
  if (bytes < 0 || !has_infiniband(surroundings)) return {};
  return {Verdict::kWarn,
          "there is an InfiniBand card, whose memory must be locked: ulimit -l unlimited; in "
          "containers --ulimit memlock=-1"};
}

Judged judge_processes(int64_t count, const Surroundings&) {
  if (count < 0 || count >= kEnoughProcesses) return {};
  return {Verdict::kWarn, "threads count as well: ulimit -u 4096"};
}

Judged judge_address_space(int64_t bytes, const Surroundings&) {
  if (bytes < 0) return {};
  return {Verdict::kWarn,
          "CUDA and LibTorch reserve far more addresses than they use: ulimit -v unlimited"};
}

struct LimitRule {
  std::string_view name, line, rule;
  bool is_bytes;
  Judged (*judge)(int64_t limit, const Surroundings& surroundings);
};

constexpr LimitRule kLimitRules[] = {
    {"limits.nofile", "Max open files", "at least 4096", false, &judge_files},
    {"limits.memlock",
     "Max locked memory",
     "unlimited where there is InfiniBand",
     true,
     &judge_locked},
    {"limits.nproc", "Max processes", "at least 1024", false, &judge_processes},
    {"limits.as", "Max address space", "unlimited", true, &judge_address_space}};

std::vector<CheckResult> run_limits(const Surroundings& surroundings) {
  const auto limits = surroundings.file("/proc/self/limits");
  if (!limits) {
    return {{.name = "limits",
             .verdict = Verdict::kWarn,
             .value = "/proc/self/limits cannot be read",
             .rule = "/proc is mounted",
             .hint = "mount /proc in this container"}};
  }
  std::vector<CheckResult> results;
  for (const LimitRule& rule : kLimitRules) {
    const auto limit = soft_limit(*limits, rule.line);
    if (!limit) continue;
    Judged judged = rule.judge(*limit, surroundings);
    results.push_back({.name = std::string(rule.name),
                       .verdict = judged.verdict,
                       .value = limit_text(*limit, rule.is_bytes),
                       .rule = std::string(rule.rule),
                       .hint = std::move(judged.hint)});
  }
  if (const auto core = soft_limit(*limits, "Max core file size")) {
    results.push_back({.name = "limits.core",
                       .value = *core == 0 ? "none are written" : limit_text(*core, true),
                       .rule = "`ulimit -c unlimited` before a crash that is to be looked at"});
  }
  return results;
}

}  // namespace

extern constinit const CheckEntry limits_entry{
    "limits", "limits of the process: files, locked memory, processes, addresses", &run_limits};

}  // namespace muster::diagnose
