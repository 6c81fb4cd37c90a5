#include "muster/formats/image/flat_images.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/decoders.h"

namespace muster::formats {

FlatImages::FlatImages(std::filesystem::path root,
                       std::vector<std::string> files,
                       std::vector<std::string> classes)
    : root_(std::move(root)), files_(std::move(files)), classes_(std::move(classes)) {}

std::string FlatImages::read(size_t at) const { return read_image_file(root_ / files_[at]); }

std::vector<std::string> list_flat_images(const std::filesystem::path& root) {
  std::vector<std::string> files;
  std::error_code failed, ignored;
  if (!std::filesystem::is_directory(root, ignored)) return files;
  for (std::filesystem::directory_iterator at(root, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->is_directory(ignored)) return {};
    std::string name = at->path().filename().string();
    if (has_image_extension(name)) files.push_back(std::move(name));
  }
  if (failed) {
    throw environment_error({.refused = concat("folder ", root.string()),
                             .rule = "it can be read",
                             .value = failed.message()});
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace muster::formats
