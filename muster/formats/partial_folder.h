// A folder that appears as a whole, or not at all. Torch-free.
#pragma once

#include <filesystem>
#include <string>

#include "muster/base/file.h"

namespace muster::formats {

/// Throws an environment error: `path` cannot be written, by the number `why` of errno.
[[noreturn]] void refuse_write(const std::filesystem::path& path, int why, std::string hint = "");

/// Lies beside `target`, and goes away with all that is in it, unless it was renamed. All throw environment errors.
class PartialFolder {
 public:
  explicit PartialFolder(const std::filesystem::path& target);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// On the disk when it returns, but for what its files hold. Throws a usage error if there is
  /// something at `target` by now.
  void rename_to(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  UniqueFd lock_;  // says that this process lives
};

}  // namespace muster::formats
