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
//
// Note [Config and plan]
// config.toml says in a user's words what the run's plan says: two files, which no rename replaces at
// once. So before the plan of the run becomes another one (the checkpoint's is replaced, or `latest`
// names another checkpoint), config.toml is renamed to config.toml.before, and once the plan is there
// a new one is written from it and from that (keep_config()). A kill in between leaves none, and the
// next start writes it: where there is a config.toml, it says what the plan says.

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kConfigBefore = "config.toml.before";

/// See Note [Config and plan]. Does nothing where there is none. Throws an environment error.
void withdraw_config(const std::filesystem::path& run);

/// The plan of the checkpoint that `latest` names; nothing where there is none, or it cannot be
/// read. May be called while the run goes on.
std::optional<Json> kept_plan(const std::filesystem::path& run);

/// Gives a checkpoint, which is whole, another plan. Atomic. Does nothing where there is no such
/// checkpoint. Throws an environment error where it cannot be written, and as read_checkpoint();
/// the old one stays then.
void keep_plan(const std::filesystem::path& checkpoint, const Json& plan);

}  // namespace muster::train
