// What all ranks of a pipeline did when.
#pragma once

#include <chrono>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::parallel {

/// `own` of each rank, by rank. Collective; `timeout`: 0: the group's.
std::vector<std::vector<pipeline::Span>> gather_spans(const distributed::ProcessGroup& ranks,
                                                      const std::vector<pipeline::Span>& own,
                                                      std::chrono::milliseconds timeout);

}  // namespace muster::parallel
