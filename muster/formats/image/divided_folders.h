// A folder of class folders, divided into one for training and others for validation and test. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/formats/image/class_folders.h"

namespace muster::formats {

/// The part of each file, by number. Of each class every part gets its share, in whole files: first rounded down,
/// then one more for those that lost most by it, the first ones first; and one at least where the class has as many
/// files as there are parts. Which ones is drawn from the seed and the class's name, so that another class changes
/// nothing. Throws a usage error unless there are two shares or more, all above 0, which add up to 1.
std::vector<size_t> divide_files(const ClassFolders& files,
                                 const std::vector<double>& shares,
                                 uint64_t seed);

/// How a file gets into its part.
enum class FileTransfer {
  kLink,  ///< a second name for the same bytes: at once, and takes no space
  kCopy   ///< with its time of change
};

/// Makes the folder `target` with a folder of each name, in which files have the paths that they had:
/// target/train/cat/1.jpg. Links are followed. As a whole or not at all: beside it, then renamed. Throws a usage error
/// if `target` is there, an environment error if it cannot be made.
void write_divided_folders(const ClassFolders& files,
                           const std::vector<size_t>& part_of,
                           const std::vector<std::string>& names,
                           const std::filesystem::path& target,
                           FileTransfer how);

}  // namespace muster::formats
