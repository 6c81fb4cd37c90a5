// What `muster data info` shows alike of images, texts and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/params.h"
#include "muster/formats/table.h"

namespace muster::cli {

/// What is asked for of a table, or of texts.
struct InfoOptions {
  ParamValues params;              ///< of csv:… or text:…
  std::filesystem::path data_dir;  ///< in place of a path
  int64_t show = 10;               ///< bad rows that are listed
  size_t width = 80;               ///< columns of the screen
  bool json = false;
};

/// "33.3 %"; of nothing 0.
std::string share_text(int64_t part, int64_t all);

/// Classes with how many of `all` each has, and which share; `what` they are: "texts".
std::string class_grid(std::span<const std::pair<std::string, int64_t>> classes,
                       std::string_view what,
                       int64_t all,
                       size_t width);

/// A line for each of the first `show`, then "…".
void list_bad(std::ostream& out, std::span<const formats::BadRow> bad, int64_t show);

}  // namespace muster::cli
