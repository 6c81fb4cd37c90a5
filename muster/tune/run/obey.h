// What a user wants of one trial, done.
#pragma once

#include <string>
#include <variant>

#include "muster/tune/core/study_core.h"
#include "muster/tune/execute/executor.h"

namespace muster::tune {

/// Stops, pauses or continues the trial of an order (ExecutorEvent::kOrder). The answer says what becomes
/// of it; a text: why it is refused.
std::variant<Decision, std::string> obey(StudyCore& core, const ExecutorEvent& order, double now_s);

}  // namespace muster::tune
