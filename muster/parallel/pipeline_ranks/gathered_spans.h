// What all ranks of a pipeline did when.
#pragma once

#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::parallel {

/// `own` of each rank, by rank. Collective.
std::vector<std::vector<pipeline::Span>> gather_spans(const distributed::ProcessGroup& ranks,
                                                      const std::vector<pipeline::Span>& own);

}  // namespace muster::parallel
