// Memory of machine and control group, swap, overcommit, huge pages.
#include <algorithm>
#include <optional>

#include "muster/base/cgroup.h"
#include "muster/base/host_memory.h"
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

constexpr uint64_t kEnoughMemory = 2ULL << 30;

CheckResult available(const Surroundings& surroundings, const std::string& meminfo) {
  const uint64_t total = meminfo_bytes(meminfo, "MemTotal:").value_or(0);
  const uint64_t free = meminfo_bytes(meminfo, "MemAvailable:").value_or(0);
  const auto limit = cgroup_memory(surroundings.root);
  const bool is_limited = limit && *limit < total;
  CheckResult result{.name = "memory",
                     .value = concat(human_bytes(free), " available of ", human_bytes(total)),
                     .rule = "at least 2 GiB"};
  if (is_limited) result.value += concat("; the control group allows ", human_bytes(*limit));
  if (std::min(free, limit.value_or(free)) < kEnoughMemory) {
    result.verdict = Verdict::kWarn;
    result.hint = "fewer loader workers and ranks, a smaller batch, or a larger container";
  }
  return result;
}

CheckResult kills(const Surroundings& surroundings) {
  const auto count = oom_kills(surroundings.root);
  CheckResult result{.name = "memory.oom_kill",
                     .value = count ? concat(*count, " processes were killed for memory so far")
                                    : std::string("not counted"),
                     .rule = "0"};
  if (count.value_or(0) > 0) {
    result.verdict = Verdict::kWarn;
    result.hint = "if the number rises while a program runs and it ends with 137, that is why";
  }
  return result;
}

CheckResult swap(const std::string& meminfo) {
  const uint64_t total = meminfo_bytes(meminfo, "SwapTotal:").value_or(0);
  const uint64_t used = total - std::min(total, meminfo_bytes(meminfo, "SwapFree:").value_or(0));
  CheckResult result{.name = "memory.swap",
                     .value = total == 0
                                  ? std::string("none")
                                  : concat(human_bytes(used), " used of ", human_bytes(total)),
                     .rule = "not much of it in use"};
  if (total > 0 && used > total / 4) {
    result.verdict = Verdict::kWarn;
    result.hint = "pages that are fetched from the disk make steps many times slower";
  }
  return result;
}

CheckResult overcommit(const Surroundings& surroundings) {
  const std::string mode(
      trim(surroundings.file("/proc/sys/vm/overcommit_memory").value_or("not known")));
  CheckResult result{.name = "memory.overcommit",
                     .value = concat("vm.overcommit_memory = ", mode),
                     .rule = "0 or 1"};
  if (mode == "2") {
    result.verdict = Verdict::kWarn;
    result.hint =
        "CUDA reserves more addresses than there is memory, and fork may fail: sysctl "
        "vm.overcommit_memory=0";
  }
  return result;
}

CheckResult huge_pages(const Surroundings& surroundings) {
  const std::string text =
      surroundings.file("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const size_t open = text.find('['), close = text.find(']');
  const bool is_known = open != std::string::npos && close != std::string::npos && open < close;
  return {.name = "memory.thp",
          .value = is_known ? text.substr(open + 1, close - open - 1) : "not known",
          .rule = "always: faster for large tensors; madvise: less resident memory"};
}

std::vector<CheckResult> run_memory(const Surroundings& surroundings) {
  const std::string meminfo = surroundings.file("/proc/meminfo").value_or("");
  return {available(surroundings, meminfo),
          kills(surroundings),
          swap(meminfo),
          overcommit(surroundings),
          huge_pages(surroundings)};
}

}  // namespace

extern constinit const CheckEntry memory_entry{
    "memory", "memory of machine and control group, swap, overcommit, huge pages", &run_memory};

}  // namespace muster::diagnose
