// What rank 0 alone does or knows, and all ranks go by.
#pragma once

#include <exception>
#include <functional>

#include "muster/distributed/process_group.h"

namespace muster::train {

/// Runs `work` on rank 0 while the others wait. What it ends with is thrown on every rank: on rank 0 as
/// it was, where memory ran out nested in an error that says so; on the others a PeerFailure. Collective.
void on_first_rank(const distributed::ProcessGroup& group, const std::function<void()>& work);

/// Whether on_first_rank() threw this because memory ran out, on the first rank or on one that it has
/// told: then all ranks know it, and may go on without what was asked for.
bool is_oom_of_first_rank(const std::exception_ptr& error);

/// Rank 0's `value`, on every rank. Collective.
bool from_first_rank(const distributed::ProcessGroup& group, bool value);

}  // namespace muster::train
