// What `muster data info csv:FILE` shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>

#include "muster/base/params.h"

namespace muster::cli {

struct RowInfoOptions {
  ParamValues params;              ///< of csv:…
  std::filesystem::path data_dir;  ///< in place of a path
  int64_t show = 10;               ///< bad rows that are listed
  size_t width = 80;               ///< columns of the screen
  bool json = false;
};

/// Reads all rows of all splits. Throws as formats::csv_data_options() and read_labelled_rows().
void show_row_info(std::ostream& out, const RowInfoOptions& options);

}  // namespace muster::cli
