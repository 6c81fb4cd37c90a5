#include "muster/diagnose/surroundings/check.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::diagnose {

std::string_view verdict_word(Verdict verdict) {
  if (verdict == Verdict::kOk) return "ok";
  return verdict == Verdict::kWarn ? "warn" : "fail";
}

std::vector<CheckResult> run_checks(const Surroundings& surroundings, std::string_view names) {
  std::vector<std::string> wanted;
  for (const std::string& name : split(names, ',')) {
    if (trim(name).empty()) continue;
    checks().at(trim(name));
    wanted.emplace_back(trim(name));
  }
  std::vector<CheckResult> results;
  for (const CheckEntry* check : checks()) {
    if (!wanted.empty() && std::ranges::find(wanted, check->name) == wanted.end()) continue;
    for (CheckResult& result : check->run(surroundings)) results.push_back(std::move(result));
  }
  return results;
}

Verdict worst(std::span<const CheckResult> results) {
  Verdict found = Verdict::kOk;
  for (const CheckResult& result : results) found = std::max(found, result.verdict);
  return found;
}

}  // namespace muster::diagnose
