// Cores that may be used against threads that are started.
#include <algorithm>
#include <cmath>
#include <optional>

#include "muster/base/cgroup.h"
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

/// How many there are in a list of the kernel's: "0-3,8" has 5.
int64_t count_of_list(std::string_view list) {
  int64_t count = 0;
  for (const std::string& part : split(trim(list), ',')) {
    const size_t dash = part.find('-');
    const auto first = to_int(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : to_int(part.substr(dash + 1));
    if (first && last && *last >= *first && *last - *first < (1 << 20)) count += *last - *first + 1;
  }
  return count;
}

/// The cores that this process may run on, by /proc/self/status; 0 if that does not say.
int64_t allowed_cores(const Surroundings& surroundings) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  for (const std::string& line : split(surroundings.file("/proc/self/status").value_or(""), '\n')) {
    if (line.starts_with(kKey)) return count_of_list(std::string_view(line).substr(kKey.size()));
  }
  return 0;
}

std::vector<CheckResult> run_cpu(const Surroundings& surroundings) {
  const int64_t cores = allowed_cores(surroundings);
  const auto quota = cgroup_cpus(surroundings.root);
  const double usable = std::min(static_cast<double>(cores), quota.value_or(cores));
  CheckResult cpu{.name = "cpu",
                  .value = concat(cores, cores == 1 ? " core" : " cores"),
                  .rule = "what threads and loader workers are counted from"};
  if (quota) cpu.value += concat("; the control group allows the time of ", fixed(*quota, 1));
  const auto set = surroundings.variable("OMP_NUM_THREADS");
  const int64_t threads = set ? to_int(*set).value_or(0) : 0;
  CheckResult omp{.name = "cpu.threads",
                  .value = set ? "OMP_NUM_THREADS=" + *set : "OMP_NUM_THREADS is not set",
                  .rule = concat("at most ", std::max<int64_t>(1, std::llround(usable)))};
  if (set && threads < 1) {
    omp.verdict = Verdict::kFail;
    omp.hint = "it is a number of threads, at least 1";
  } else if (cores > 0 && static_cast<double>(threads) > usable + 0.5) {
    omp.verdict = Verdict::kWarn;
    omp.hint =
        "threads that wait for a core make each operation slower; with several ranks, the "
        "cores divided by the ranks";
  } else if (!set && quota && static_cast<double>(cores) > *quota + 0.5) {
    omp.verdict = Verdict::kWarn;
    omp.hint = concat("LibTorch starts a thread per core, ",
                      cores,
                      ", and they share the time of ",
                      fixed(*quota, 1),
                      ": export OMP_NUM_THREADS=",
                      std::max<int64_t>(1, std::llround(*quota)));
  }
  return {cpu, omp};
}

}  // namespace

extern constinit const CheckEntry cpu_entry{
    "cpu", "cores, the control group's share of them, and threads", &run_cpu};

}  // namespace muster::diagnose
