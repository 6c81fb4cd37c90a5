// The images of tar shards as a source, and their classes by number. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "muster/formats/image/image_source.h"
#include "muster/formats/tar/tar_index.h"

namespace muster::formats {

struct TarClasses {
  std::vector<std::string> names;  ///< by number; empty: they are called by their numbers
  int64_t count = 0;

  bool operator==(const TarClasses&) const = default;
};

/// Where classes are written as numbers from 0 on, the greatest says how many there are; else they are the texts,
/// sorted by their bytes. Throws an environment error that names two samples where some are numbers and some are
/// texts, or one is a negative number, or a number of 100,000 or more.
TarClasses classes_in(const TarIndex& index);

/// The names in a file, a line each, in the order of their numbers. Blanks around them, and empty lines at the
/// end, are left out. Throws a usage error if there is no such file; an environment error for one without names,
/// of more than 16 MiB, with an empty line among others, or a name that is there twice.
TarClasses read_class_names(const std::filesystem::path& path);

/// Sets the labels: a number of a class, or one of the names. Samples of another class become bad.
void number_classes(TarIndex& index, const TarClasses& classes);

/// "3 of 40 samples in a.tar are skipped: …", and what was left aside.
std::vector<std::string> remarks_of(const TarIndex& index);

/// The images of an index whose classes are numbered. Shards are opened for each image, and read where it lies.
class TarImages final : public ImageSource {
 public:
  TarImages(TarIndex index, TarClasses classes);

  std::string title() const override { return "tar shards " + place(); }
  std::string place() const override { return index_.title(); }
  size_t size() const override { return index_.images.size(); }
  int64_t classes() const override { return classes_.count; }
  std::vector<std::string> class_names() const override { return classes_.names; }
  bool has_labels() const override;
  int64_t label(size_t at) const override { return index_.images[at].label; }
  std::string name(size_t at) const override;
  std::string full_name(size_t at) const override { return index_.place_of(index_.images[at]); }
  /// Also throws an environment error if the shard is no longer as long as it was.
  std::string read(size_t at) const override;

 private:
  TarIndex index_;
  TarClasses classes_;
};

}  // namespace muster::formats
