// Image files in a folder for each class.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/pixel_table.h"
#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/image.h"

namespace muster::data {

/// What becomes of a file that cannot be decoded.
enum class BadFiles {
  kRaise,  ///< the batch fails, with the file's name and the sample's number
  /// All files are decoded once when the dataset is made, and bad ones are no samples. That takes as
  /// long as reading every one of them, on all cores.
  kSkip,
  /// The next file that can be decoded stands in for it, with its own class: the same one in each
  /// epoch, for any number of workers and ranks.
  kSubstitute,
};

struct ImageFolderOptions {
  /// Height and width of all samples: the shorter side is resized to it (bilinear with antialiasing, as
  /// torchvision's Resize of a tensor), then the middle is cut out (CenterCrop). 0: images are as large
  /// as they are, and the first transform has to make one size of them.
  int64_t size = 0;
  BadFiles bad_files = BadFiles::kRaise;
  formats::ImageOptions decoding = {};
  /// As ImageNet's are usually taken; both empty: pixels are 0 … 1.
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> standard_deviation = {0.229, 0.224, 0.225};
  /// The classes by number, of which each folder is one: those of the training split, so that another
  /// split counts them alike. Empty: the folders.
  std::vector<std::string> classes = {};
};

/// Samples are the files that formats::list_class_folders() finds, in its order, which is that of
/// torchvision's ImageFolder; they are decoded when a batch is made, by whoever makes it. "data" is
/// [3, H, W] float32, normalised; "target" the class. Pixels are those of Pillow's convert("RGB").
/// before_normalising() has them as bytes.
class ImageFolder final : public Dataset {
 public:
  /// Lists the files, and reads none, but for BadFiles::kSkip. Throws as list_class_folders(), and a
  /// usage error for a folder that is none of options.classes, a size below 0, or mean and deviation
  /// that are not three numbers each.
  explicit ImageFolder(const std::filesystem::path& root, ImageFolderOptions options = {});

  int64_t size() const override;
  DataSpec spec() const override;
  at::Tensor targets() const override;
  /// Of all names and classes, and of the bytes of 16 files, spread evenly.
  uint32_t fingerprint() const override;
  bool is_by_sample() const override;
  std::shared_ptr<const Dataset> before_normalising() const override;
  std::vector<std::string> remarks() const override;

  /// The samples' files, without those that were skipped.
  const formats::ClassFolders& files() const;

 private:
  class Pixels;

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override;

  std::shared_ptr<const Pixels> pixels_;
  PixelTable table_;
};

}  // namespace muster::data
