// What `muster data info csv:FILE` shows.
#pragma once

#include <ostream>

#include "cli/dataset/info_parts.h"

namespace muster::cli {

/// Reads all rows of all splits. Throws as formats::csv_data_options() and read_labelled_rows(), and
/// as check_classes() of the training split.
void show_row_info(std::ostream& out, const InfoOptions& options);

}  // namespace muster::cli
