// What `muster data info folder:PATH` and `tar:PATTERN` show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>

#include "muster/base/params.h"

namespace muster::cli {

struct ImageInfoOptions {
  Spec data;                       ///< folder or tar; it has a path, if data_dir is empty
  std::filesystem::path data_dir;  ///< in place of a path
  int64_t threads = 0;             ///< that decode; 0: all cores
  int64_t show = 10;               ///< bad and damaged files that are listed
  size_t width = 80;               ///< columns of the screen
  bool json = false;
};

/// Decodes every image of all splits. Throws as formats::folder_data_options(), list_class_folders(),
/// require_known_classes() and find_tar_samples().
void show_image_info(std::ostream& out, const ImageInfoOptions& options);

}  // namespace muster::cli
