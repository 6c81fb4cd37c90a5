#include "cli/dataset/info_parts.h"

#include <algorithm>
#include <vector>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::cli {

std::string share_text(int64_t part, int64_t all) {
  const auto whole = static_cast<double>(std::max<int64_t>(all, 1));
  return fixed(100.0 * static_cast<double>(part) / whole, 1) + " %";
}

std::string class_grid(std::span<const std::pair<std::string, int64_t>> classes,
                       std::string_view what,
                       int64_t all,
                       size_t width) {
  std::vector<Column> columns{{"class"}, {std::string(what)}, {"share"}};
  for (const auto& [name, count] : classes) {
    columns[0].cells.emplace_back(printable(name));
    columns[1].cells.emplace_back(count);
    columns[2].cells.emplace_back(share_text(count, all));
  }
  return grid(std::move(columns), width);
}

void list_bad(std::ostream& out, std::span<const formats::BadRow> bad, int64_t show) {
  for (const formats::BadRow& one : bad) {
    if (show-- == 0) {
      out << "  …\n";
      return;
    }
    out << "  " << printable(concat(one.place, ": ", one.why)) << '\n';
  }
}

}  // namespace muster::cli
