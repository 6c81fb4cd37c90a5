// What `muster doctor --json` says. Pure.
#pragma once

#include <span>

#include "muster/base/json_fwd.h"
#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::cli {

Json to_json(const diagnose::LogDiagnosis& diagnosis,
             std::span<const diagnose::CheckResult> checks);
Json to_json(std::span<const diagnose::CheckResult> results);

}  // namespace muster::cli
