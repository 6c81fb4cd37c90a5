// What a tuner owes once a batch of events is stored.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/tune/core/study_core.h"

namespace muster::tune {

/// The answer to a report, until what it rests on is stored.
struct HeldAnswer {
  uint64_t token = 0;
  std::variant<Decision, std::string> what;  ///< a text: why the report was refused
};

/// What is to be done when the events that rest on it are stored. A transaction that fails is made
/// again from the start, so it does nothing itself.
struct Deeds {
  std::vector<HeldAnswer> answers;
  std::vector<int64_t> ended;                            // trials
  std::vector<std::pair<int64_t, std::string>> stopped;  // trials, and by what
  std::vector<std::pair<std::string, bool>> interrupts;  // why, and whether to kill
  std::vector<std::string> notes;
  std::set<std::pair<int64_t, int32_t>> refused;  // attempts that had a report refused
};

}  // namespace muster::tune
