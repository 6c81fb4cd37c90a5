// Encoded images with their classes, wherever they lie. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/formats/image/class_folders.h"

namespace muster::formats {

/// Numbered images that are read one by one: what datasets decode, and `muster data info` looks through. Every
/// member is const and may be called from many threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  /// For errors: "folder of images pets", and "pets".
  virtual std::string title() const = 0;
  virtual std::string place() const = 0;

  virtual size_t size() const = 0;
  virtual int64_t classes() const = 0;
  /// By number, or empty: they are called by their numbers.
  virtual std::vector<std::string> class_names() const = 0;
  /// Whether images have classes. False: label() is not to be called.
  virtual bool has_labels() const { return true; }
  /// 0 … classes()-1
  virtual int64_t label(size_t at) const = 0;
  /// Within the place: "cat/1.jpg".
  virtual std::string name(size_t at) const = 0;
  /// For errors: "pets/cat/1.jpg".
  virtual std::string full_name(size_t at) const = 0;
  /// The file's bytes. Throws a usage error if it is gone, an environment error if it cannot be read.
  virtual std::string read(size_t at) const = 0;

  /// "cat", or "0".
  std::string class_name(int64_t number) const;
};

/// The files of list_class_folders().
class FolderImages final : public ImageSource {
 public:
  explicit FolderImages(ClassFolders files) : files_(std::move(files)) {}

  std::string title() const override { return "folder of images " + files_.root.string(); }
  std::string place() const override { return files_.root.string(); }
  size_t size() const override { return files_.files.size(); }
  int64_t classes() const override { return static_cast<int64_t>(files_.classes.size()); }
  std::vector<std::string> class_names() const override { return files_.classes; }
  int64_t label(size_t at) const override { return files_.files[at].label; }
  std::string name(size_t at) const override { return files_.files[at].path; }
  std::string full_name(size_t at) const override { return files_.path_of(at).string(); }
  std::string read(size_t at) const override;

  const ClassFolders& files() const { return files_; }

 private:
  ClassFolders files_;
};

}  // namespace muster::formats
