// What `muster doctor` says, as text, JSON and the page of the catalogue. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::cli {

/// The first cause with its evidence and next steps, what follows from it, and `checks`, those of its
/// row on this machine. Lines of at most `width` columns, each ended by "\n".
std::string diagnosis_text(const diagnose::LogDiagnosis& diagnosis,
                           std::span<const diagnose::CheckResult> checks,
                           size_t width);

/// A line per result, with rule and hint below those that are not ok; then how many of each.
std::string checks_text(std::span<const diagnose::CheckResult> results, size_t width);

Json to_json(const diagnose::LogDiagnosis& diagnosis,
             std::span<const diagnose::CheckResult> checks);
Json to_json(std::span<const diagnose::CheckResult> results);

/// docs/errors.md: every row of the catalogue, and every check.
std::string catalogue_page();

}  // namespace muster::cli
