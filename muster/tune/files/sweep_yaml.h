// W&B sweep files as studies.
#pragma once

#include <filesystem>
#include <string_view>

#include "muster/tune/core/study_spec.h"

namespace muster::tune {

// Note [W&B sweeps]
// What a sweep says is mapped or refused, never dropped; entity, project and description, which
// only label a sweep on W&B's server, are read over. method random and grid are ours (grid:
// grid_search of all values), and bayes is gp. Distributions become domains by their definitions;
// q_… ones are sample_from("round(X / q) * q"), which is W&B's formula. A sweep without run_cap
// never ends, as with W&B. early_terminate of type hyperband becomes ASHA with W&B's brackets as
// rungs, and no end at the last one. The command's macros become placeholders of Note [Commands];
// ${interpreter} is python3, as a Debian has no `python`. Source:
// https://docs.wandb.ai/models/sweeps/sweep-config-keys

/// Throws a usage error that begins with FILE:LINE:COL for what is not YAML, an unknown key (the
/// nearest is the hint), a value of the wrong type or beyond its bounds, and what has no
/// counterpart here. Environment variables of ${envvar:NAME} are looked up now.
StudySpec read_sweep_yaml(const std::filesystem::path& file);
StudySpec parse_sweep(std::string_view text, const std::filesystem::path& file);

}  // namespace muster::tune
