#include "muster/tune/run/checkpoint_files.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "muster/base/text.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

/// As it is on the disk, but for a link at its end, which is what is to be removed.
fs::path real_place(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path named = whole.has_filename() ? whole : whole.parent_path();
  return fs::weakly_canonical(named.parent_path(), error) / named.filename();
}

/// The parts of `path` below `folder`; 0: it is not below it.
std::ptrdiff_t depth_below(const fs::path& path, const fs::path& folder) {
  const auto parts = std::ranges::mismatch(
      folder, path, [](const fs::path& a, const fs::path& b) { return a == b; });
  return parts.in1 == folder.end() ? std::distance(parts.in2, path.end()) : 0;
}

bool may_be_removed(const fs::path& path, const fs::path& trials) {
  std::error_code error;
  if (trials.empty())
    return path.has_relative_path() &&
           depth_below(real_place(fs::current_path(error)), path) == 0 &&
           real_place(fs::current_path(error)) != path;
  const std::ptrdiff_t depth = depth_below(path, fs::weakly_canonical(fs::absolute(trials), error));
  return depth > 2 || (depth == 2 && path.filename() != "checkpoints");
}

}  // namespace

std::string remove_checkpoints(std::span<const std::string> paths, const fs::path& trials) {
  std::string fault;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) continue;  // most, when a long study goes on
    const fs::path place = real_place(path);
    if (!may_be_removed(place, trials)) continue;
    fs::remove_all(place, error);
    if (error) fault = concat("cannot remove the checkpoint ", path, ": ", error.message());
  }
  return fault;
}

}  // namespace muster::tune
