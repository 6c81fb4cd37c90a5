// The plan of the newest checkpoint as that of the run: what a start is told holds for those behind
// it, whether it saves or not.
#pragma once

#include <filesystem>
#include <optional>

#include "muster/base/json.h"

namespace muster::train {

// Note [Kept plan]
// A checkpoint has the plan of the start that wrote it. A start that goes on from there and is told
// something anew may be killed before it saves, or have no step left to make: so it puts that into
// the plan of the checkpoint that `latest` names, before its first step. It replaces state.json as a
// whole, which has sums of the other files and one of itself, and of which another run's folder may
// have a link: that one stays as it is.

/// The plan of the checkpoint that `latest` names; nothing where there is none, or it cannot be
/// read. May be called while the run goes on.
std::optional<Json> kept_plan(const std::filesystem::path& run);

/// Gives a checkpoint, which is whole, another plan. Atomic. Does nothing where there is no such
/// checkpoint. Throws an environment error where it cannot be written, and as read_checkpoint();
/// the old one stays then.
void keep_plan(const std::filesystem::path& checkpoint, const Json& plan);

}  // namespace muster::train
