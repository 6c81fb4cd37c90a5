// What a reader found, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "muster/diagnose/log/log_reader.h"

namespace muster::diagnose {

inline std::string first_of(const LogDiagnosis& diagnosis) {
  const Finding* first = diagnosis.first_cause();
  return first == nullptr ? "none" : std::string(first->row->name);
}

inline const Finding& finding_of(const LogDiagnosis& diagnosis, std::string_view row) {
  const auto found = std::ranges::find_if(
      diagnosis.findings, [&](const Finding& finding) { return finding.row->name == row; });
  EXPECT_NE(found, diagnosis.findings.end()) << row;
  return *found;
}

}  // namespace muster::diagnose
