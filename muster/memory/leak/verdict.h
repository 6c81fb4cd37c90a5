// From what survives to what leaks: Note [Leak verdict].
#pragma once

#include <vector>

#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/leak/survey.h"

namespace muster::memory {

/// Most bytes first. The survey has a full window.
std::vector<LeakFinding> findings_of(const Survey& survey, const LeakOptions& options);

}  // namespace muster::memory
