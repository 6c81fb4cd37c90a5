// What lies in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster::formats {

struct FolderEntries {
  std::vector<std::string> folders, files;  ///< names, sorted; what a link leads to counts
};

/// Throws an environment error if the folder cannot be read.
FolderEntries entries_of(const std::filesystem::path& folder);

}  // namespace muster::formats
