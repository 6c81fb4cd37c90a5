// What `muster data info text:FILE` shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>

#include "muster/base/params.h"

namespace muster::cli {

struct TextInfoOptions {
  ParamValues params;              ///< of text:…
  std::filesystem::path data_dir;  ///< in place of a path
  int64_t show = 10;               ///< bad rows that are listed
  size_t width = 80;               ///< columns of the screen
  bool json = false;
};

/// Reads every text of all splits. Throws as text::text_data_options() and read_texts().
void show_text_info(std::ostream& out, const TextInfoOptions& options);

}  // namespace muster::cli
