// Removes checkpoints that no trial needs any more. Private to the room.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace muster::tune {

/// Removes files or folders (Note [Kept checkpoints]); what is not there any more is no fault.
/// `trials`, unless empty: the folder of the study's trials, and nothing outside of their folders is
/// removed, nor such a folder or its checkpoints folder as a whole: a program may name any path. With
/// an empty `trials` a path that holds the working directory stays. Returns why one could not be
/// removed, or nothing.
std::string remove_checkpoints(std::span<const std::string> paths,
                               const std::filesystem::path& trials);

}  // namespace muster::tune
