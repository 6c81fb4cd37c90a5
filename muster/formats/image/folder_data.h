// What a user says of a folder of images. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/params.h"

namespace muster::formats {

struct FolderDataOptions {
  std::string path;
  int64_t size = 0;
  std::string bad_files = "raise";
  bool keep_damaged = false;
  std::string normalize = "imagenet";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

inline constexpr Param kFolderDataParams[] = {
    param<&FolderDataOptions::path>(
        "path", "of CLASS/… or train/CLASS/… and test/CLASS/…; it may stand first, alone"),
    param<&FolderDataOptions::size>(
        "size", "height and width that all images are fitted to; 0: as they are"),
    param<&FolderDataOptions::bad_files>("bad_files",
                                         "that cannot be decoded: raise, skip or substitute"),
    param<&FolderDataOptions::keep_damaged>("keep_damaged",
                                            "take JPEGs whose data are damaged, as Pillow does"),
    param<&FolderDataOptions::normalize>("normalize", "by mean and deviation of imagenet, or none"),
    param<&FolderDataOptions::test_fraction>(
        "test_fraction", "held out of each class where there is no test folder"),
    param<&FolderDataOptions::split_seed>("split_seed", "which ones these are"),
};

inline constexpr std::string_view kFolderDataOwner = "dataset folder";

/// `data_dir` takes the place of a path. Throws a usage error for unknown parameters, values without sense, and
/// if there is no path.
FolderDataOptions folder_data_options(const ParamValues& values,
                                      const std::filesystem::path& data_dir);

}  // namespace muster::formats
