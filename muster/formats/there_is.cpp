#include "muster/formats/there_is.h"

#include <system_error>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {

bool there_is(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const bool is_there = fs::exists(path, failed);
  // No file has a name that is too long.
  if (!failed || failed == std::errc::filename_too_long) return is_there;
  fs::path first = path;  // that fails so, on the way from the root
  for (fs::path above = first.parent_path(); !above.empty() && above != first;
       above = first.parent_path()) {
    std::error_code same;
    static_cast<void>(fs::status(above, same));
    if (same != failed) break;
    first = above;
  }
  if (failed == std::errc::permission_denied)
    first = first.has_parent_path() ? first.parent_path() : fs::path(".");
  throw environment_error({.refused = concat("no look at ", path.string()),
                           .rule = concat(first.string(), " can be read"),
                           .value = errno_text(failed.value())});
}

}  // namespace muster::formats
