// A folder of class folders, divided into one for training and others for validation and test. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Throws a usage error if `target` is `source`, or below or above it, links resolved: what is written would be among
/// what it was made of.
void require_apart(const std::filesystem::path& source, const std::filesystem::path& target);

/// Removes what calls for `target` that were killed left beside it, and says what that was. Of processes that live, and
/// on file systems that know no locks, all stays.
std::vector<std::filesystem::path> remove_left_behind(const std::filesystem::path& target);

/// Asked before each file.
using DivisionStops = std::function<bool()>;

/// Makes the folder `target` with a folder of each name, in which files have the paths that they had:
/// target/train/cat/1.jpg. Links are followed. As a whole or not at all: beside it, then renamed. Throws a usage error
/// if `target` is there, or as require_apart() of the classes' folders; an environment error, which names the file at
/// fault, if it cannot be made or a file cannot be read. False, and nothing is left, where `stops` says so.
bool write_divided_folders(const ClassFolders& files,
                           const std::vector<size_t>& part_of,
                           const std::vector<std::string>& names,
                           const std::filesystem::path& target,
                           FileTransfer how,
                           const DivisionStops& stops = {});

}  // namespace muster::formats
