// What `muster data info text:FILE` shows.
#pragma once

#include <ostream>

#include "cli/dataset/info_parts.h"

namespace muster::cli {

/// Reads every text of all splits. Throws as text::text_data_options() and read_texts().
void show_text_info(std::ostream& out, const InfoOptions& options);

}  // namespace muster::cli
