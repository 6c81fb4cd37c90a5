// What a diagnosis and checks say to people. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {

/// The first cause with its evidence and next steps, what follows from it, and `checks`, those of its
/// row on this machine. Lines of at most `width` columns, each ended by "\n".
std::string diagnosis_text(const LogDiagnosis& diagnosis,
                           std::span<const CheckResult> checks,
                           size_t width);

/// The same of one finding, with nothing of the log around it.
std::string finding_text(const Finding& finding, std::span<const CheckResult> checks, size_t width);

/// A line per result, with rule and hint below those that are not ok; then how many of each.
std::string checks_text(std::span<const CheckResult> results, size_t width);

}  // namespace muster::diagnose
