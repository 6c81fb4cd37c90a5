// Manual pages, written from what the commands say of themselves. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/program/line/command_text.h"

namespace muster::cli {

struct ManPage {
  std::string name;  ///< "muster-train"
  std::string roff;
};

/// muster(1), and a page for each command; those of `muster study` share one. `version` is shown in
/// the footer, `examples` on the first page.
std::vector<ManPage> man_pages(std::span<const program::CommandText> commands,
                               std::string_view version,
                               std::string_view examples);

}  // namespace muster::cli
