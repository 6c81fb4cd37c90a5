// Image files in a folder for each class.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/sets/labelled_images.h"
#include "muster/formats/image/class_folders.h"

namespace muster::data {

struct ImageFolderOptions {
  int64_t size = 0;  ///< as in LabelledImagesOptions, and so are the next ones
  BadFiles bad_files = BadFiles::kRaise;
  formats::ImageOptions decoding = {};
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> standard_deviation = {0.229, 0.224, 0.225};
  /// The classes by number, of which each folder is one: those of the training split, so that another
  /// split counts them alike. Empty: the folders.
  std::vector<std::string> classes = {};
};

/// Samples are the files that formats::list_class_folders() finds, in its order, which is that of
/// torchvision's ImageFolder.
class ImageFolder final : public LabelledImages {
 public:
  /// Lists the files, and reads none, but for BadFiles::kSkip. Throws as list_class_folders() and
  /// LabelledImages, and a usage error for a folder that is none of options.classes.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  /// The samples' files, without those that were skipped.
  const formats::ClassFolders& files() const { return files_; }

 private:
  ImageFolder(formats::ClassFolders files, const ImageFolderOptions& options);

  formats::ClassFolders files_;
};

}  // namespace muster::data
