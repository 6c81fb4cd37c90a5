#include "muster/formats/image/folder_entries.h"

#include <algorithm>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {

namespace fs = std::filesystem;

FolderEntries entries_of(const fs::path& folder) {
  FolderEntries entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code no_target;  // a link that leads nowhere is a file, which cannot be read
    const bool is_folder = at->is_directory(no_target);
    (is_folder ? entries.folders : entries.files).push_back(at->path().filename().string());
  }
  if (failed) {
    throw environment_error({.refused = concat("folder ", folder.string()),
                             .rule = "it can be read",
                             .value = errno_text(failed.value())});
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

}  // namespace muster::formats
