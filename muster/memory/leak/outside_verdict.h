// From what grows outside of the CPU's tensors to what leaks: Note [Leaks outside of tensors].
#pragma once

#include <vector>

#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/leak/survey.h"

namespace muster::memory {

/// The least of kernels' heap that counts, as a share of what counts elsewhere: one kernel is small.
inline constexpr double kKernelShare = 0.25;

/// Adds to `findings`. `graphs_grow`: there is a finding of graphs, whose tensors are not told again.
void find_outside(const Survey& survey,
                  const LeakOptions& options,
                  bool graphs_grow,
                  std::vector<LeakFinding>& findings);

}  // namespace muster::memory
