// What `muster data info csv:FILE` shows.
#pragma once

#include <ostream>

#include "cli/dataset/info_parts.h"

namespace muster::cli {

/// Reads all rows of all splits. Throws as formats::csv_data_options() and read_labelled_rows().
void show_row_info(std::ostream& out, const InfoOptions& options);

}  // namespace muster::cli
