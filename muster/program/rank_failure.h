// How a program that is a rank ends when it fails.
#pragma once

#include <string_view>

namespace muster::program {

/// A rank that has failed says so to its launcher, and then ends with its own exit code, though the
/// launcher may tell all ranks to end because of another one. See Note [Who was first]. Nothing where
/// the environment names no rank. Call it before the error is shown.
void note_rank_failure(std::string_view why);

}  // namespace muster::program
