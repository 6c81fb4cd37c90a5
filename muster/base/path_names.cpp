#include "muster/base/path_names.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster {
namespace {

/// Its first letters, no part of one.
std::string beginning_of(std::string_view name) {
  size_t shown = std::min<size_t>(name.size(), 40);
  while (shown > 0 && shown < name.size() && (name[shown] & 0xC0) == 0x80) --shown;
  return concat(name.substr(0, shown), "…, ", name.size(), " bytes");
}

}  // namespace

std::filesystem::path without_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

void require_nameable(const std::filesystem::path& path, std::string_view whose) {
  constexpr const char* kHint = "choose a shorter one";
  for (const std::filesystem::path& part : path) {
    if (part.native().size() <= kLongestName) continue;
    throw usage_error({.refused = std::string(whose),
                       .rule = concat("a name in a path has at most ", kLongestName, " bytes"),
                       .value = beginning_of(part.native()),
                       .hint = kHint});
  }
  if (path.native().size() <= kLongestPath) return;
  throw usage_error({.refused = std::string(whose),
                     .rule = concat("a path has at most ", kLongestPath, " bytes"),
                     .value = beginning_of(path.native()),
                     .hint = kHint});
}

void require_writable_folder(const std::filesystem::path& folder, std::string_view what) {
  std::error_code none;
  std::vector<std::filesystem::path> made;  // innermost first
  for (std::filesystem::path one = folder; !one.empty() && !std::filesystem::exists(one, none);
       one = one.parent_path())
    made.push_back(one);
  const auto clear = [&] {
    for (const std::filesystem::path& one : made) std::filesystem::remove(one, none);
  };
  try {
    make_writable_folder(folder, what);
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

Error file_system_error(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string();
  return environment_error(
      {.refused = path.empty() ? "cannot use the file system" : "cannot use " + path,
       .rule = errno_text(error.code().value())});
}

}  // namespace muster
