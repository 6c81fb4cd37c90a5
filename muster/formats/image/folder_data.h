// What a user says of a folder of images. Torch-free.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/params.h"
#include "muster/formats/image_params.h"

namespace muster::formats {

struct FolderDataOptions : ImageDataOptions {
  std::string path;
};

inline constexpr auto kFolderDataParams = with_image_params<FolderDataOptions>(std::array{
    param<&FolderDataOptions::path>(
        "path", "of CLASS/… or train/CLASS/… and test/CLASS/…; it may stand first, alone"),
});

inline constexpr std::string_view kFolderDataOwner = "dataset folder";

/// `data_dir` takes the place of a path. Throws a usage error for unknown parameters, values without sense, and
/// if there is no path.
FolderDataOptions folder_data_options(const ParamValues& values,
                                      const std::filesystem::path& data_dir);

}  // namespace muster::formats
