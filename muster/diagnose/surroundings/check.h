// Checks of the environment. One file of muster/diagnose/checks/ adds one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/diagnose/surroundings/surroundings.h"

namespace muster::diagnose {

enum class Verdict { kOk, kWarn, kFail };

/// "ok", "warn" or "fail".
std::string_view verdict_word(Verdict verdict);

struct CheckResult {
  std::string name;  ///< "shm", "limits.nofile": the check's, and what it looked at
  Verdict verdict = Verdict::kOk;
  std::string value;  ///< what was found: "64 MiB, 60 MiB free"
  std::string rule;   ///< what is right: "at least 1 GiB"
  std::string hint;   ///< the next step; empty if it is ok
};

struct CheckEntry {
  static constexpr std::string_view kKind = "check";
  std::string_view name;
  std::string_view help;
  /// Throws nothing for what it finds.
  std::vector<CheckResult> (*run)(const Surroundings& surroundings);
};

/// The checks of this build (generated; see Note [Generated tables]).
EntryTable<CheckEntry> checks();

/// The results of the named checks ("shm, limits"), or of all if there are none, in the order of the
/// table. Throws a usage error for a name that no check has.
std::vector<CheckResult> run_checks(const Surroundings& surroundings, std::string_view names = "");

/// The worst of them; kOk if there are none.
Verdict worst(std::span<const CheckResult> results);

}  // namespace muster::diagnose
