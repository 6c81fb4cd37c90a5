#include "muster/formats/image/flat_images.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/decoders.h"
#include "muster/formats/image/folder_entries.h"

namespace muster::formats {

FlatImages::FlatImages(std::filesystem::path root,
                       std::vector<std::string> files,
                       std::vector<std::string> classes)
    : root_(std::move(root)), files_(std::move(files)), classes_(std::move(classes)) {}

std::string FlatImages::read(size_t at) const { return read_image_file(root_ / files_[at]); }

std::vector<std::string> list_flat_images(const std::filesystem::path& root) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(root, ignored)) return {};
  FolderEntries entries = entries_of(root);
  if (!entries.folders.empty()) return {};
  std::erase_if(entries.files, [](const std::string& name) { return !has_image_extension(name); });
  return std::move(entries.files);
}

}  // namespace muster::formats
