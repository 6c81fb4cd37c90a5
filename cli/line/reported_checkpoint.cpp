#include "cli/line/reported_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::cli {

std::string reported_checkpoint(const std::string& path) {
  if (path.empty()) return path;
  const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
  std::error_code error;
  if (std::filesystem::exists(absolute, error)) return absolute.string();
  const bool is_missing = !error || error == std::errc::no_such_file_or_directory;
  throw usage_error(
      {.refused = "--checkpoint",
       .rule = is_missing ? "nothing is there" : errno_text(error.value()),
       .value = path,
       .hint = "save the checkpoint first, then report it: the trial goes on from it"});
}

}  // namespace muster::cli
