// A folder of class folders, divided into one for training and others for validation and test. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/formats/division.h"
#include "muster/formats/image/class_folders.h"

namespace muster::formats {

/// The part of each file, by number, as divide_labels() draws it. Throws as that.
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
/// if `target` is there, or as require_apart() of the classes' folders; an environment error, which names the file at
/// fault, if it cannot be made or a file cannot be read. False, and nothing is left, where `stops` says so.
bool write_divided_folders(const ClassFolders& files,
                           const std::vector<size_t>& part_of,
                           const std::vector<std::string>& names,
                           const std::filesystem::path& target,
                           FileTransfer how,
                           const DivisionStops& stops = {});

}  // namespace muster::formats
