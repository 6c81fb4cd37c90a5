// What a tuner says of trials and their reports. Private to the room.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

/// The usage error of a report whose checkpoint is not there.
Error no_checkpoint(int64_t trial, const std::string& checkpoint);

/// A line for the user about constraints whose metrics a trial's first report has not; empty if it has
/// all. They may come with the last one, so it is no error: but they may be misspelt, too.
std::string unreported_constraints(const StudySpec& spec, int64_t trial, const Report& report);

/// "trials 3, 7 are with others, who asked: …"
std::string handed_out(const StudyCore& core);

/// "the searcher waits for trial 3, which is with others: …"
std::string waits_for(const StudyCore& core);

}  // namespace muster::tune
