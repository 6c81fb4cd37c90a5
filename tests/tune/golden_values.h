// How goldens and peers write what JSON has no words for.
#pragma once

#include <string>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/trial/trial.h"

namespace muster::test {

/// A number, or "nan", "inf" or "-inf".
inline double number_of(const Json& json) {
  return json.is_string() ? to_double(json.get<std::string>()).value() : json.get<double>();
}

/// "failed", "pruned"; anything else: it completed.
inline tune::TrialState state_of(const std::string& name) {
  if (name == "failed") return tune::TrialState::kFailed;
  return name == "pruned" ? tune::TrialState::kPruned : tune::TrialState::kComplete;
}

}  // namespace muster::test
