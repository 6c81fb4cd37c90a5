// What rank 0 alone does or knows, and all ranks go by.
#pragma once

#include <functional>

#include "muster/distributed/process_group.h"

namespace muster::train {

/// Runs `work` on rank 0 while the others wait. An error of ours that it ends with is thrown on
/// every rank. Collective.
void on_first_rank(const distributed::ProcessGroup& group, const std::function<void()>& work);

/// Rank 0's `value`, on every rank. Collective.
bool from_first_rank(const distributed::ProcessGroup& group, bool value);

}  // namespace muster::train
