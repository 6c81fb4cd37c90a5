// What `muster data split` writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Writes the folder, then says what is in it; `note` is told what is worth knowing besides. SIGINT, SIGTERM and SIGHUP
/// end it with nothing left: the number of that signal is returned, else 0. The second one ends the process. Throws a
/// usage error for data that are no folder of classes, or have splits already, and as formats::folder_data_options(),
/// divide_files() and write_divided_folders().
int split_data(std::ostream& out,
               const std::function<void(const std::string&)>& note,
               const SplitDataOptions& options);

}  // namespace muster::cli
