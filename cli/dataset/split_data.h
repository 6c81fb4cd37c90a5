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
  Spec data;                       ///< folder:PATH or tar:PATTERN
  std::filesystem::path data_dir;  ///< in place of a path
  std::filesystem::path output;
  std::string ratio;  ///< "0.8,0.1,0.1"
  int64_t seed = 0;
  bool copy = false;       ///< of a folder
  std::string shard_size;  ///< of shards: "512MiB"; empty: 1 GiB
  size_t width = 80;       ///< columns of the screen
};

using SplitNote = std::function<void(const std::string&)>;

/// Writes the folder, then says what is in it; `note` is told what is worth knowing besides. SIGINT, SIGTERM and SIGHUP
/// end it with nothing left: the number of that signal is returned, else 0. The second one ends the process. Throws a
/// usage error for data that are neither a folder of classes nor shards, or have splits already, and as
/// formats::folder_data_options(), divide_files() and write_divided_folders(), or tar_data_options(),
/// find_tar_samples(), list_tar_samples() and write_divided_shards().
int split_data(std::ostream& out, const SplitNote& note, const SplitDataOptions& options);

}  // namespace muster::cli
