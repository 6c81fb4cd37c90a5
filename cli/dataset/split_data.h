// What `muster data split` writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>

#include "muster/base/params.h"

namespace muster::cli {

struct SplitDataOptions {
  Spec data;                       ///< folder:PATH
  std::filesystem::path data_dir;  ///< in place of a path
  std::filesystem::path output;
  std::string ratio;  ///< "0.8,0.1,0.1"
  int64_t seed = 0;
  bool copy = false;
  size_t width = 80;  ///< columns of the screen
};

/// Writes the folder, then says what is in it. Throws a usage error for data that are no folder of classes, or
/// have splits already, and as formats::divide_files() and write_divided_folders().
void split_data(std::ostream& out, const SplitDataOptions& options);

}  // namespace muster::cli
