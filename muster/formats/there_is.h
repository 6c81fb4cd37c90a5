// Whether a file is there, or nobody may know.
#pragma once

#include <filesystem>

namespace muster::formats {

/// Whether there is a file or a folder of this name. Throws an environment error, which names the folder, where
/// one on the way to it may not be looked into: what is missing and what may not be seen differ.
bool there_is(const std::filesystem::path& path);

}  // namespace muster::formats
