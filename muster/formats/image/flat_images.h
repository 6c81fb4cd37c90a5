// Images without classes, side by side in one folder. Torch-free.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/formats/image/image_source.h"

namespace muster::formats {

/// The image files of one folder, by their extension and sorted by name, whose classes nobody knows.
class FlatImages final : public ImageSource {
 public:
  /// `classes`: what a model tells apart, by number.
  FlatImages(std::filesystem::path root,
             std::vector<std::string> files,
             std::vector<std::string> classes);

  std::string title() const override { return "folder of images " + root_.string(); }
  std::string place() const override { return root_.string(); }
  size_t size() const override { return files_.size(); }
  int64_t classes() const override { return static_cast<int64_t>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  bool has_labels() const override { return false; }
  int64_t label(size_t) const override { return -1; }
  std::string name(size_t at) const override { return files_[at]; }
  std::string full_name(size_t at) const override { return (root_ / files_[at]).string(); }
  std::string read(size_t at) const override;

 private:
  std::filesystem::path root_;
  std::vector<std::string> files_, classes_;
};

/// The names of the image files in a folder that has no folder in it, sorted; none where it has one, or is
/// not there. Throws an environment error if it cannot be read.
std::vector<std::string> list_flat_images(const std::filesystem::path& root);

}  // namespace muster::formats
